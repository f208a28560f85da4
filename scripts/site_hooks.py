"""What mkdocs makes of levin's pages: those are written to be read in the repository, too, where links lead to sources."""
import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)")


def on_page_markdown(markdown, page, **_):
    """A link named after a page gets the page's title as its text. A link to another file becomes text, with the file's name."""
    folder = (DOCS / page.file.src_uri).parent

    def titled(match):
        text, target, anchor = match[1], match[2], match[3] or ""
        file = (folder / target).resolve()
        if not file.is_relative_to(DOCS):
            path = file.relative_to(DOCS.parent)
            return f"`{path}`" if text.strip("`") in str(path) else f"{text} (`{path}`)"
        if text != file.name or file.suffix != ".md":
            return match[0]
        title = file.read_text().splitlines()[0].removeprefix("# ")
        return f"[{title}]({target}{anchor})"

    return LINK.sub(titled, markdown)


def on_post_build(config, **_):
    """The search works from a folder, too (site_search.js), which reads its index as a script."""
    folder = pathlib.Path(config.site_dir, "search")
    (folder / "search_index.js").write_text(f"const siteIndex = {(folder / 'search_index.json').read_text()};\n")
    (folder / "main.js").write_text((DOCS.parent / "scripts/site_search.js").read_text())
    (folder / "search_index.json").unlink()
    (folder / "worker.js").unlink()
