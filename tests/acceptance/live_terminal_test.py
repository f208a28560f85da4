#!/usr/bin/env python3
"""The live terminal as a person has it: the digits example in a pseudo terminal, whose keys are pressed and whose screen is read.

Usage: live_terminal_test.py BUILD_FOLDER SOURCE_FOLDER [NAME…]
"""
import fcntl
import glob
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
import unittest

BUILD, SOURCE = (os.path.abspath(folder) for folder in sys.argv[1:3])
sys.path.insert(0, f"{SOURCE}/scripts")
from picture_of_a_run import Terminal  # noqa: E402

SECONDS = 60 * float(os.environ.get("LEVIN_TEST_PATIENCE", "1"))
KEYS = "p pause   s save"


class Session:
    """A run of the example in a new terminal."""

    def __init__(self, *arguments, columns=120, rows=40, environment=None, piped=False, fed=False):
        self.folder = tempfile.TemporaryDirectory()
        command = [f"{BUILD}/bin/levin", "fit", f"--config={SOURCE}/examples/digits/config.yaml", "--trainer.max_epochs=2000",
                   f"--trainer.default_root_dir={self.folder.name}", *arguments]
        self.master, slave = os.openpty()
        self.found = termios.tcgetattr(slave)
        self.file = f"{self.folder.name}/out.txt"
        self.bytes = b""
        self.resize(columns, rows)
        self.process = os.fork()
        if self.process == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            out = os.open(self.file, os.O_WRONLY | os.O_CREAT) if piped else slave
            for descriptor, number in ((os.open("/dev/null", os.O_RDONLY) if fed else slave, 0), (out, 1), (out, 2)):
                os.dup2(descriptor, number)
            kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "LC_ALL", "LC_CTYPE")}
            os.execve(command[0], command, {**kept, "TERM": "xterm", "LANG": "C.UTF-8", **(environment or {})})
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.master)
        self.folder.cleanup()

    def lose(self):
        """As when a connection breaks: there is no terminal any more."""
        os.close(self.master)
        self.master = os.open("/dev/null", os.O_RDWR)

    def resize(self, columns, rows):
        """As most terminals do, which take the screen apart: what is drawn from here on is seen alone."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.terminal = Terminal(columns, rows)

    def read(self, seconds=0.05):
        if not select.select([self.master], [], [], seconds)[0]:
            return
        try:
            part = os.read(self.master, 65536)
        except OSError:
            return
        self.bytes += part
        self.terminal.write(part.decode(errors="replace"))

    def screen(self):
        return ["".join(character for character, _ in row).rstrip() for row in self.terminal.rows]

    def wait_for(self, what, happened=None):
        """Until the screen, or all that was shown, has the text."""
        deadline = time.monotonic() + SECONDS
        while not (happened() if happened else re.search(what, self.terminal.text())):
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} on the terminal:\n{self.terminal.text()}")
            self.read()

    def press(self, keys, what):
        os.write(self.master, keys.encode())
        self.wait_for(what)

    def modes_are_found(self):
        return termios.tcgetattr(self.master) == self.found

    def waits(self, options=0):
        """Its wait status, while the terminal is read."""
        result = []

        def ended():
            process, status = os.waitpid(self.process, options | os.WNOHANG)
            if process:
                result.append(status)
            return bool(result)

        self.wait_for("end of the run", ended)
        while select.select([self.master], [], [], 0.1)[0]:
            before = len(self.bytes)
            self.read()
            if len(self.bytes) == before:
                break
        return result[0]

    def ends_with(self, status):
        waited = os.waitstatus_to_exitcode(self.waits())
        if waited != status:
            raise AssertionError(f"status {waited}, not {status}:\n{self.terminal.text()}")


class LiveTerminal(unittest.TestCase):
    def assert_clean(self, session):
        """Neither keys nor screen have anything left of the view."""
        self.assertTrue(session.modes_are_found())
        self.assertEqual((session.terminal.top, session.terminal.bottom), (0, session.terminal.height - 1))
        self.assertNotIn(KEYS, session.terminal.text())

    def test_keys_do_what_they_say_on_all_ranks(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks), Session(f"--trainer.devices={ranks}") as session:
                session.wait_for(r"val_loss \d")
                session.wait_for(KEYS)
                self.assertFalse(session.modes_are_found())
                session.wait_for(r"Epoch \d+ of 2000: ")
                session.wait_for(r"run        [\d:]+ left")
                session.press("p", r" PAUSED   p resume   s save")
                session.wait_for(r"Training pauses in epoch \d+ after global step \d+\.")
                session.press("s", r"Saved .*manual-epoch=\d+-step=\d+\.ckpt\.")
                session.press("l", r" log axis, 1 of 2 ")
                session.press("l", r"─ 1 of 2 ")
                session.press("m", r" 2 of 2 ")
                session.press("?", r"s  save a checkpoint after the next step")
                session.press("?", r"speed      \d")
                session.press("v", r"Validation: \d+/\d+ \[.*val_loss=\d")
                session.press("p", r"Training continues\.")
                # An epoch may end before it is drawn.
                session.press("q", r"stops after this epoch|Training stopped: it was asked to")
                session.ends_with(0)
                self.assertRegex(session.terminal.text(), r"Training stopped: it was asked to after epoch \d+\.")
                self.assertRegex(session.terminal.text(), r"Epoch \d+: 100%\|")
                self.assertEqual(len(glob.glob(f"{session.folder.name}/logs/*/checkpoints/manual-*.ckpt")), 1)
                self.assert_clean(session)

    def test_a_validation_in_a_pause_shows_what_it_gave_at_the_end_of_an_epoch_too(self):
        with Session("--trainer.limit_train_batches=1") as session:
            session.wait_for(KEYS)
            session.press("p", r" PAUSED ")
            session.wait_for(r"Training pauses in epoch \d+")

            def lines():  # not the bar, which has a share: "Validation:  33%|"
                return len(re.findall(r"Validation: \d+/\d+ \[.*val_loss=\d", session.terminal.text()))

            shown = lines()
            os.write(session.master, b"v")
            session.wait_for("another validation", lambda: lines() > shown)
            session.press("p", r"Training continues\.")

    def test_log_lines_stand_above_in_the_order_in_which_they_came(self):
        with Session("--trainer.devices=2") as session:
            session.wait_for(KEYS)
            for _ in range(10):
                session.press("p", r" PAUSED ")
                session.press("p", KEYS)
            session.wait_for(r"Epoch \d+ of 2000: ")
            lines = session.terminal.text().split("\n")
            reports = [line for line in lines if line.startswith("Training ")]
            self.assertEqual(len(reports), 20)
            self.assertEqual([line.startswith("Training pauses") for line in reports], [True, False] * 10)
            self.assertEqual(sum("Epoch" in line for line in lines), 1)
            self.assertRegex(session.screen()[-1], KEYS)

    def test_a_small_terminal_has_the_bar_alone_while_it_is_small(self):
        with Session() as session:
            session.wait_for(KEYS)
            session.resize(60, 15)
            session.wait_for(r"Epoch \d+: +\d+%")
            session.wait_for("one line", lambda: len([line for line in session.screen() if line]) == 1)
            session.resize(120, 40)
            session.wait_for(KEYS)
            self.assertRegex(session.screen()[-1], KEYS)

    def test_curves_have_blocks_or_the_dots_that_are_asked_for(self):
        for environment, shown in (({}, "[▀▄█]"), ({"LEVIN_BRAILLE": "1"}, "[\u2801-\u28ff]")):
            with self.subTest(environment), Session("--trainer.progress=live", environment=environment) as session:
                session.wait_for(KEYS)
                session.wait_for(shown)
                self.assertEqual(re.search("[\u2801-\u28ff]", session.terminal.text()) is not None, bool(environment))
                # Half of the terminal has the curve.
                session.wait_for("the axis", lambda: sum("│" in line for line in session.screen()) == 17)

    def test_plain_terminals(self):
        with Session(environment={"NO_COLOR": "1"}) as session:
            session.wait_for(KEYS)
            self.assertNotRegex(session.bytes, rb"\x1b\[[0-9;]*m")
        with Session(environment={"LANG": "C"}) as session:
            session.wait_for(KEYS)
            session.wait_for(r"\*\*\* train_loss")
            self.assertTrue(session.bytes.isascii())
        with Session("--trainer.max_epochs=2", environment={"TERM": "dumb"}) as session:
            session.ends_with(0)
            self.assertNotIn(b"\x1b", session.bytes)
            self.assertRegex(session.bytes, rb"\nEpoch 1: 40/40 ")

    def test_what_is_no_terminal_is_left_alone(self):
        with Session("--trainer.max_epochs=2", piped=True) as session:
            session.ends_with(0)
            self.assertTrue(session.modes_are_found())
            with open(session.file, "rb") as file:
                text = file.read()
            self.assertNotIn(b"\x1b", text)
            self.assertRegex(text, rb"\nEpoch 1: 40/40 ")
        for arguments in ({"fed": True}, {"columns": 99}, {"rows": 23}):
            with Session("--trainer.max_epochs=2", **arguments) as session:
                session.ends_with(0)
                self.assertNotIn(KEYS.encode(), session.bytes)
                self.assertIn(b"\rEpoch 0:", session.bytes)

    def test_views_can_be_chosen(self):
        with Session("--trainer.max_epochs=2", "--trainer.progress=bar") as session:
            session.ends_with(0)
            self.assertNotIn(KEYS.encode(), session.bytes)
            self.assertIn(b"\rEpoch 0:", session.bytes)
        with Session("--trainer.max_epochs=2", "--trainer.progress=lines") as session:
            session.ends_with(0)
            self.assertNotIn(b"\x1b[K", session.bytes)
            self.assertRegex(session.bytes, rb"\nEpoch 1: 40/40 ")
        with Session("--trainer.progress=live", columns=90, rows=20) as session:
            session.wait_for(KEYS)

    def pause_within_an_epoch(self, session):
        """Not at an epoch's end, which has its own checkpoint: a stop has something to save there."""
        pauses = []
        while not pauses or pauses[-1] % 20 == 0:  # batches of an epoch: 40, or 20 of each of two ranks
            if pauses:
                # Keys that come together are a pause and its end at once.
                session.wait_for(" PAUSED ")
                os.write(session.master, b"p")
                session.wait_for("end of the pause", lambda: session.terminal.text().count("Training continues.") == len(pauses))
            before = len(pauses)
            os.write(session.master, b"p")

            def paused():
                pauses[:] = map(int, re.findall(r"Training pauses in epoch \d+ after global step (\d+)\.", session.terminal.text()))
                return len(pauses) > before

            session.wait_for("pause", paused)
        session.wait_for(" PAUSED ")

    def test_an_interruption_ends_a_pause_and_gives_the_terminal_back(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks), Session(f"--trainer.devices={ranks}") as session:
                session.wait_for(KEYS)
                self.pause_within_an_epoch(session)
                session.press("\x03", r"Stopped by signal 2")
                session.ends_with(128 + signal.SIGINT)
                self.assert_clean(session)
                # Reported once, with what was saved and how to resume.
                text = session.terminal.text()
                self.assertEqual(len(re.findall("Stopped by signal 2", text)), 1)
                self.assertRegex(text.replace("\n", ""), r"Stopped by signal 2 \(Interrupt\).* Saved its state as .*\.ckptResume the run with: ")
                self.assertNotIn("error", text)
                self.assertNotIn(b"\x1b[1;31m", session.bytes)

    def test_a_stopped_run_gives_the_terminal_back_and_takes_it_again(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks), Session(f"--trainer.devices={ranks}") as session:
                session.wait_for(KEYS)
                os.write(session.master, b"\x1a")
                self.assertTrue(os.WIFSTOPPED(session.waits(os.WUNTRACED)))
                self.assert_clean(session)
                os.kill(session.process, signal.SIGCONT)
                session.wait_for(KEYS)
                session.press("p", r" PAUSED ")

    def test_signals_and_errors_give_the_terminal_back(self):
        for ranks in (1, 2):
            for number in (signal.SIGTERM, signal.SIGQUIT):
                with self.subTest(ranks=ranks, signal=number), Session(f"--trainer.devices={ranks}") as session:
                    session.wait_for(KEYS)
                    os.kill(session.process, number)
                    session.waits()
                    self.assert_clean(session)
            with self.subTest(ranks=ranks), Session(f"--trainer.devices={ranks}", "--trainer.on_nan=stop", "--model.init_args.lr=1e30",
                                                    "--trainer.progress=live") as session:
                session.ends_with(1)
                self.assert_clean(session)
    def test_a_run_whose_terminal_is_lost_saves_and_says_how_it_ended(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks), Session(f"--trainer.devices={ranks}") as session:
                session.wait_for(KEYS)
                session.lose()
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(session.process, 0)[1]), 128 + signal.SIGHUP)
                run = f"{session.folder.name}/logs/version_0"
                with open(f"{run}/run.json") as file:
                    self.assertEqual(json.load(file)["status"], "interrupted")
                self.assertTrue(glob.glob(f"{run}/checkpoints/*.ckpt"))

    def test_a_rank_that_is_killed_gives_the_terminal_back(self):
        with Session("--trainer.devices=2") as session:
            session.wait_for(KEYS)
            process = int(re.search(r"\[rank 0\] device cpu .*process (\d+)", session.terminal.text())[1])
            os.kill(process, signal.SIGKILL)
            session.waits()
            self.assert_clean(session)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
