#!/usr/bin/env python3
"""Writes the last line of each page of docs/, which leads to the pages before and after it, in the order of docs/index.md."""
import pathlib
import re

DOCS = pathlib.Path(__file__).parent.parent / "docs"
LAST_LINE = re.compile(r"\n\n[^\n]*\[index\]\(index\.md\)[^\n]*\n$")

pages = re.findall(r"^\| \[([a-z-]+\.md)\]", (DOCS / "index.md").read_text(), re.MULTILINE)
texts = [LAST_LINE.sub("\n", (DOCS / page).read_text()) for page in pages]
links = [f"[{text.splitlines()[0].removeprefix('# ')}]({page})" for page, text in zip(pages, texts)]
for index, (page, text) in enumerate(zip(pages, texts)):
    parts = ["[index](index.md)"]
    if index > 0:
        parts.insert(0, f"← {links[index - 1]}")
    if index + 1 < len(pages):
        parts.append(f"{links[index + 1]} →")
    (DOCS / page).write_text(text + "\n" + " | ".join(parts) + "\n")
