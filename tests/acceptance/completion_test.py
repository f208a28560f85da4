#!/usr/bin/env python3
"""What a shell makes of `levin completion`, typed at its prompt in a pseudo terminal: completion_test.py LEVIN SHELL

Ends with 77 where the shell is not installed.
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LEVIN, SHELL = os.path.abspath(sys.argv[1]), sys.argv[2]
SECONDS = 20 * float(os.environ.get("LEVIN_TEST_PATIENCE", "1"))
# A function in the program's place shows what the line that was completed says.
START = {
    "bash": (["--norc", "--noprofile", "-i"], "bind 'set enable-bracketed-paste off'; PS1='$ '; source ./script\n"
             "levin() { printf '<%s>' \"$@\"; echo; }; echo read''y\n"),
    "zsh": (["-f", "-i"], "PS1='$ '; unset zle_bracketed_paste; autoload -U compinit && compinit -u -D; source ./script\n"
            "levin() { printf '<%s>' \"$@\"; echo }; echo read''y\n"),
    "fish": (["--no-config", "-i"], "function fish_prompt; echo '$ '; end; source ./script\n"
             "function levin; printf '<%s>' $argv; echo; end; echo read''y\n"),
}
# What is typed, and what the program then gets; a tab stands for itself.
COMPLETED = [
    ("levin fi\t", "<fit>"),
    ("levin runs del\tx", "<runs><delete><x>"),
    ("levin runs best --mode=ma\t", "<runs><best><--mode=max>"),
    ("levin runs best --mode ma\t", "<runs><best><--mode><max>"),
    ("levin export --to saf\t", "<export><--to><safetensors>"),
    ("levin fit --tra\tmax_ep\t3", "<fit><--trainer.max_epochs=3>"),
    ("levin fit --trainer.acce\tcpu", "<fit><--trainer.accelerator=cpu>"),
    ("levin fit --trainer.precision=bf16-m\t", "<fit><--trainer.precision=bf16-mixed>"),
    ("levin fit --trainer.fast_dev_run=t\t", "<fit><--trainer.fast_dev_run=true>"),
    ("levin fit --trainer.callbacks+=EarlySt\t", "<fit><--trainer.callbacks+=EarlyStopping>"),
    ("levin fit --trainer.callbacks.patie\t3", "<fit><--trainer.callbacks.patience=3>"),
    ("levin fit --help EarlySt\t", "<fit><--help><EarlyStopping>"),
    ("levin fit --config ru\t", "<fit><--config><run.yaml>"),
    ("levin fit --config run.yaml --optimizer=AdamWB\t", "<fit><--config><run.yaml><--optimizer=AdamWBf16>"),
    ("levin fit --config=ru\t", "<fit><--config=run.yaml>"),
    ("levin fit --ckpt_path=my\t", "<fit><--ckpt_path=my weights.ckpt>"),
    ("levin inspect ru\t", "<inspect><run.yaml>"),
    ("levin fit --nothing_of_the_ki\t", "<fit><--nothing_of_the_ki>"),
]
LISTED = [
    ("levin ", ["fit", "validate", "completion"]),
    ("levin runs ", ["list", "compare", "best", "tag", "delete", "sync", "export"]),
    ("levin fit --trainer.acc", ["accelerator=", "accumulate_grad_batches="]),
    ("levin fit --trainer.precision=b", ["bf16-mixed", "bf16-true"]),
    ("levin fit --", ["--config", "--print_config", "--trainer.", "--model"]),
]


class Terminal:
    def __init__(self, folder):
        arguments, start = START[SHELL]
        self.process, self.master = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            kept = {name: os.environ[name] for name in ("PATH",)}
            os.execvpe(SHELL, [SHELL, *arguments], {**kept, "HOME": folder, "TERM": "xterm", "LANG": "C.UTF-8", "COLUMNS": "200"})
        self.type(start)
        self.wait_for("\nready")

    def type(self, keys):
        self.seen = ""
        os.write(self.master, keys.encode())

    def wait_for(self, *texts):
        """Reads what the shell shows until all texts were there."""
        deadline = time.monotonic() + SECONDS
        while not all(text in self.seen for text in texts):
            if not select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"{texts} were not shown but {self.seen!r}")
            shown = os.read(self.master, 65536).decode(errors="replace").replace("\r", "")
            self.seen += re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[()>=][0-9A-B]?|\][^\x07]*\x07)", "", shown)

    def close(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.master)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        place = pathlib.Path(cls.folder.name)
        place.joinpath("script").write_bytes(subprocess.run([LEVIN, "completion", SHELL], check=True, capture_output=True).stdout)
        for name in ("run.yaml", "my weights.ckpt"):
            place.joinpath(name).touch()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def terminal(self):
        terminal = Terminal(self.folder.name)
        self.addCleanup(terminal.close)
        return terminal

    def test_words_are_completed(self):
        terminal = self.terminal()
        for typed, arguments in COMPLETED:
            with self.subTest(typed):
                terminal.type(typed + "\n")
                terminal.wait_for("\n<", ">\n")
                self.assertEqual(re.search("\n(<.*>)\n", terminal.seen)[1], arguments)

    def test_what_fits_is_listed(self):
        for typed, words in LISTED:
            with self.subTest(typed):
                terminal = self.terminal()
                terminal.type(typed + "\t\t\t")
                terminal.wait_for(*words)


if __name__ == "__main__":
    if shutil.which(SHELL) is None:
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
