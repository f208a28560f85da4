"""python -m levin_train: the levin program."""

import sys

from levin_train.installed import run_program

sys.argv[0] = "levin"  # as it is called in the commands that it proposes
run_program()
