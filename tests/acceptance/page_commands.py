#!/usr/bin/env python3
"""Runs the commands of docs/ as they stand, with one levin: that of a build folder, or of a package.

    tests/acceptance/page_commands.py LEVIN [PAGE…]

A page's `sh` blocks run one after another in a folder that `levin new digits` has made, with LEVIN's folder in PATH.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What installs and packages levin is tested by make test-packages and test-readme, the first hour by cases/readmes.txt, and
# packages of Python's with the module that the page exports by tests/exported.
ELSEWHERE = {"install.md", "releases.md", "first-hour.md", "from-python.md"}
BLOCK_LIMIT = 600


def blocks_of(page):
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", page.read_text())


def failures_of(page, project, environment):
    """What is wrong with the commands of a page, one text each."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "digits"
        shutil.copytree(project, folder)
        for block in blocks_of(page):
            done = subprocess.run(["sh", "-e", "-c", block], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=BLOCK_LIMIT)
            if done.returncode != 0:
                yield f"{page.name}: status {done.returncode} of\n{block}{done.stdout[-2000:]}"


def main():
    levin = pathlib.Path(sys.argv[1]).absolute()
    pages = [ROOT / "docs" / name for name in sys.argv[2:]] or sorted(
        page for page in (ROOT / "docs").rglob("*.md") if page.name not in ELSEWHERE and blocks_of(page))
    environment = {**os.environ, "PATH": f"{levin.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([levin, "new", "digits"], cwd=temporary, check=True, stdout=subprocess.DEVNULL)
        for page in pages:
            found += failures_of(page, pathlib.Path(temporary) / "digits", environment)
    print("\n".join(found) if found else f"the commands of {len(pages)} pages run: {', '.join(page.name for page in pages)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
