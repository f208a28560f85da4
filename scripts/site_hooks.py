"""What mkdocs makes of levin's pages: those are written to be read in the repository, too, where links lead to sources."""
import re

OUTSIDE = re.compile(r"\[([^\]]*)\]\((\.\./[^)]*)\)")


def on_page_markdown(markdown, **_):
    """A link to a file that is no page becomes its text, and the file's name."""

    def named(match):
        text, target = match.groups()
        path = target.removeprefix("../")
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return OUTSIDE.sub(named, markdown)
