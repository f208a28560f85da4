#!/usr/bin/env python3
"""Types what the README's first screen says into a Debian that has nothing but git, make and certificates: `make test-readme`.

Every `sh` block before the README's first heading of its second level runs as it stands, in a fresh clone of the commit that is
checked out. It takes most of an hour, root and debootstrap, and downloads what a newcomer downloads.
"""

import pathlib
import re
import sys
import time

from check_packages import PACKAGES, ROOT, WORK, debian, need, run


def first_blocks():
    """The commands of the README's first screen, block by block."""
    first = (ROOT / "README.md").read_text().split("\n## ", 1)[0]
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", first)


def main():
    WORK.mkdir(exist_ok=True)
    blocks = first_blocks()
    need(len(blocks) == 2 and "make demo" in blocks[0] and "make test" in blocks[0] and "pip install" in blocks[1],
         f"the README does not begin with `make demo`, `make test` and the wheel, but with {blocks}")
    with debian(*PACKAGES) as (folder, inside):
        inside("apt-get", "update", "-qq")
        inside("apt-get", "install", "-y", "-qq", "--no-install-recommends", "git", "make", DEBIAN_FRONTEND="noninteractive")
        run("git", "clone", "--quiet", ROOT, folder / "root/levin")
        for block in blocks:
            begin = time.monotonic()
            said = inside("bash", "-e", "-c", block, cwd="/root/levin", limit=7200)
            print(f"{said[-1500:]}\n{block}took {time.monotonic() - begin:.0f} s", flush=True)
            if "make test" in block:
                need("100% tests passed" in said and "test accuracy" in said, said[-1500:])


if __name__ == "__main__":
    sys.exit(main())
