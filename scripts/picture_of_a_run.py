#!/usr/bin/env python3
"""Runs a command in a new terminal, and writes what the terminal shows at the end as an SVG picture, or as text.

Usage: scripts/picture_of_a_run.py [--columns N] [--rows N] [--until TEXT] [--typed TEXT] [--text] FILE COMMAND ARGUMENT…
`--typed` is what the picture shows as typed, the command itself by default. `--until` takes the picture as soon as that text is
there, and ends the command. The name of this machine becomes "host".
"""
import argparse
import codecs
import fcntl
import os
import pty
import re
import shlex
import signal
import socket
import struct
import sys
import termios
import unicodedata
from html import escape

COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea"}
PLAIN = "#c9d1d9"
GREY = "#8b949e"
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CHARACTER, LINE, LEFT, TOP = 8.4, 18, 16, 50


class Terminal:
    """As much of a terminal as levin uses: lines, colours, a cursor that can be moved, and a part that scrolls."""

    PART = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b([78D])|([\r\n])|([^\x1b\r\n])")

    def __init__(self, columns, height=50):
        self.columns, self.height = columns, height
        self.above = []  # rows that have left the screen
        self.rows = [[] for _ in range(height)]  # of (character, colour)
        self.row = self.column = 0
        self.top, self.bottom = 0, height - 1
        self.colour = PLAIN
        self.kept = (0, 0, PLAIN)

    def write(self, text):
        for number, code, short, motion, character in self.PART.findall(text):
            if code:
                self.control(number, code)
            elif short == "7":
                self.kept = (self.row, self.column, self.colour)
            elif short == "8":
                self.row, self.column, self.colour = self.kept
            elif motion == "\r":
                self.column = 0
            elif motion == "\n" or short == "D":
                self.down()
            elif unicodedata.category(character) != "Cc":
                self.put(character)

    def control(self, number, code):
        numbers = [int(part or 0) for part in number.lstrip("?").split(";")]
        if code == "m":
            for part in (number or "0").split(";"):
                self.colour = COLOURS.get(part, GREY if part in ("2", "90") else PLAIN if part in ("0", "39") else self.colour)
        elif code == "K":
            del self.rows[self.row][self.column if numbers[0] == 0 else 0 :]
        elif code == "J":
            del self.rows[self.row][self.column :]
            self.rows[self.row + 1 :] = [[] for _ in self.rows[self.row + 1 :]]
        elif code == "A":
            self.row = max(0, self.row - max(1, numbers[0]))
        elif code == "H":
            self.row, self.column = min(max(1, numbers[0]), self.height) - 1, max(1, numbers[-1] if len(numbers) > 1 else 1) - 1
        elif code == "r":
            self.top, self.bottom = (numbers[0] - 1, numbers[1] - 1) if number else (0, self.height - 1)
            self.row = self.column = 0

    def down(self):
        if self.row != self.bottom:
            self.row = min(self.row + 1, self.height - 1)
            return
        row = self.rows.pop(self.top)
        if self.top == 0:
            self.above.append(row)
        self.rows.insert(self.bottom, [])

    def put(self, character):
        if self.column == self.columns:
            self.column = 0
            self.down()
        row = self.rows[self.row]
        row.extend([(" ", PLAIN)] * (self.column - len(row)))
        row[self.column : self.column + 1] = [(character, self.colour)]
        self.column += 1

    def lines(self):
        """All rows, without blanks at their ends and without empty ones at the end of all."""
        rows = [row[: len("".join(character for character, _ in row).rstrip())] for row in self.above + self.rows]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def text(self):
        return "\n".join("".join(character for character, _ in row) for row in self.lines())


def run(command, columns, height, until):
    """What the terminal shows when the command has ended, or with `until` when that text is there; and the exit status."""
    terminal = Terminal(columns, height)
    process, master = pty.fork()
    if process == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", height, columns, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    decoder, shown = codecs.getincrementaldecoder("utf-8")(), None
    try:
        while part := os.read(master, 65536):
            terminal.write(decoder.decode(part))
            if until and shown is None and until in terminal.text():
                shown = terminal.lines()
                os.kill(process, signal.SIGTERM)
    except OSError:  # the command and all that it started have ended
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return (terminal.lines(), status) if shown is None else (shown, 0)


def runs_of_colour(row):
    """The row's parts of one colour: where each begins, its text and its colour."""
    begin = 0
    for end in range(1, len(row) + 1):
        if end == len(row) or row[end][1] != row[begin][1]:
            text = "".join(character for character, _ in row[begin:end])
            if text.strip():
                blanks = len(text) - len(text.lstrip())
                yield begin + blanks, text.strip(), row[begin][1]
            begin = end


def svg(rows):
    width = round(2 * LEFT + CHARACTER * max(len(row) for row in rows))
    height = TOP + LINE * len(rows)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="{FONT}" font-size="14">'
    yield '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>'
    for place, colour in ((20, "#ff5f56"), (40, "#ffbd2e"), (60, "#27c93f")):
        yield f'<circle cx="{place}" cy="18" r="6" fill="{colour}"/>'
    for index, row in enumerate(rows):
        for column, text, colour in runs_of_colour(row):
            x, length = LEFT + CHARACTER * column, CHARACTER * len(text)
            yield (
                f'<text x="{x:.1f}" y="{TOP + LINE * index}" fill="{colour}" textLength="{length:.1f}" '
                f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{escape(text)}</text>'
            )
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=150)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--until")
    parser.add_argument("--typed")
    parser.add_argument("--text", action="store_true")
    parser.add_argument("file")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    shown, status = run(arguments.command, arguments.columns, arguments.rows, arguments.until)
    typed = "$ " + (arguments.typed or shlex.join(arguments.command))
    rows = [[(character, PLAIN) for character in typed], *shown]
    if arguments.text:
        content = "\n".join("".join(character for character, _ in row) for row in rows)
    else:
        content = "\n".join(svg(rows))
    with open(arguments.file, "w", encoding="utf-8") as file:
        file.write(re.sub(rf"\bon {re.escape(socket.gethostname())}\b", "on host", content) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
