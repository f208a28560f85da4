#!/usr/bin/env python3
"""Writes one source of all C++ that README.md and docs/ show, so that a compiler reads it.

    tests/pages/page_code.py OUTPUT PAGE…

Each block becomes a separate namespace, which may use what named_elsewhere.h declares; an error names the page and its line. A block
that includes a header, or begins with a class or a registration, stands unchanged in its namespace; one that overrides a function becomes
members of a class; any other is the body of a function, of a Module where it names what a Module has. A comment `<!-- C++: a member of X -->` in the page, on the line before
the block, names a class of named_elsewhere.h of which the block's functions are overrides.
"""

import pathlib
import re
import sys

FENCE = re.compile(r"^```(\w*)\s*$")
MEMBER_OF = re.compile(r"^<!-- C\+\+: a member of ([\w:]+) -->$")
DECLARATION = re.compile(r"^(class|struct|LEVIN_REGISTER_\w+|#include)\b")
MEMBERS = re.compile(r"^\S.*\boverride\b", re.MULTILINE)
OF_A_MODULE = re.compile(r"\btrainer\(\)|\bthis\b|\b(log(_\w+)?|parameters|register_module|add_metrics?|\w+_generator|add_metric<[\w:]+>)\(")


def blocks_of(page):
    """The blocks of C++ of a page: the number of the first line, its lines, and the class that it is said to belong to."""
    begin, owner = None, None
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if begin is None and fence and fence[1]:
            begin = number + 1
            is_code = fence[1] == "cpp"
            said = MEMBER_OF.match(lines[number - 2])
            owner = said[1] if said else None
        elif begin is not None and fence:
            if is_code:
                yield begin, lines[begin - 1:number - 1], owner
            begin = None


def wrapped(body, owner):
    """The lines before and after a block."""
    text = "\n".join(body)
    if owner or MEMBERS.search(text):
        return [f"struct Page : {owner or 'PageModule'} {{"], ["};"]
    if DECLARATION.match(next(line for line in body if line and not line.startswith("//"))):
        return [], []
    if not OF_A_MODULE.search(text):
        return ["void code_of_the_page() {"], ["}"]
    returned = "levin::OptimizerSetups" if re.search("^return", text, re.MULTILINE) else "void"
    return ["struct Page : PageModule {", f"{returned} code_of_the_page() {{"], ["}", "};"]


def main():
    output = pathlib.Path(sys.argv[1])
    includes, code = [], []
    for page in map(pathlib.Path, sys.argv[2:]):
        for begin, body, owner in blocks_of(page):
            before, after = wrapped(body, owner)
            includes += [line for line in body if line.startswith("#include")]
            code += [f"namespace {page.stem.replace('-', '_')}_{begin} {{", *before, f'#line {begin} "{page}"']
            code += ["" if line.startswith("#include") else line for line in body]
            code += [*after, "}"]
    lines = ['#include "pages/named_elsewhere.h"', *sorted(set(includes)), *code]
    output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
