"""What mkdocs makes of levin's pages: those are written to be read in the repository, too, where links lead to sources."""
import pathlib
import re

DOCS = pathlib.Path(__file__).parent.parent / "docs"
PAGE = re.compile(r"\[([a-z-]+\.md)\]\(\1")
LAST_LINE = re.compile(r"\n[^\n]*\[index\]\(index\.md\)[^\n]*\n*$")  # scripts/page_links.py writes it; the site's theme has links of its own
OUTSIDE = re.compile(r"\[([^\]]*)\]\((\.\./[^)]*)\)")


def on_page_markdown(markdown, **_):
    """The last line goes. A link to a page has its title for a text; one to a file that is no page becomes text, with the file's name."""

    def titled(match):
        title = (DOCS / match[1]).read_text().splitlines()[0].removeprefix("# ")
        return f"[{title}]({match[1]}"

    def named(match):
        text, target = match.groups()
        path = target.removeprefix("../")
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return PAGE.sub(titled, OUTSIDE.sub(named, LAST_LINE.sub("\n", markdown)))


def on_post_build(config, **_):
    """The search works from a folder, too (site_search.js), which reads its index as a script."""
    folder = pathlib.Path(config.site_dir, "search")
    (folder / "search_index.js").write_text(f"const siteIndex = {(folder / 'search_index.json').read_text()};\n")
    (folder / "main.js").write_text((DOCS.parent / "scripts/site_search.js").read_text())
    (folder / "search_index.json").unlink()
    (folder / "worker.js").unlink()
