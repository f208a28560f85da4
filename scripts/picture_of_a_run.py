#!/usr/bin/env python3
"""Runs a command in a terminal of its own, and writes what the terminal shows at the end as an SVG picture, or as text.

Usage: scripts/picture_of_a_run.py [--columns N] [--typed TEXT] [--text] FILE COMMAND ARGUMENT…
`--typed` is what the picture shows as typed, the command itself by default. The name of this machine becomes "host".
"""
import argparse
import fcntl
import os
import pty
import re
import shlex
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
    """As much of a terminal as levin uses: lines, colours, and a cursor that goes up and back to draw a progress bar again."""

    PART = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n])")

    def __init__(self, columns):
        self.columns = columns
        self.rows = [[]]  # of (character, colour)
        self.row = self.column = 0
        self.colour = PLAIN

    def write(self, text):
        for number, code, motion, character in self.PART.findall(text):
            if code:
                self.control(number, code)
            elif motion == "\r":
                self.column = 0
            elif motion == "\n":
                self.down(1)
            elif unicodedata.category(character) != "Cc":
                self.put(character)

    def control(self, number, code):
        if code == "m":
            for part in (number or "0").split(";"):
                self.colour = COLOURS.get(part, GREY if part in ("2", "90") else PLAIN if part in ("0", "39") else self.colour)
        elif code == "K":
            del self.rows[self.row][self.column if number in ("", "0") else 0 :]
        elif code == "J":
            del self.rows[self.row][self.column :]
            del self.rows[self.row + 1 :]
        elif code == "A":
            self.row = max(0, self.row - int(number or 1))
        elif code == "B":
            self.down(int(number or 1))

    def down(self, lines):
        self.row += lines
        while len(self.rows) <= self.row:
            self.rows.append([])

    def put(self, character):
        if self.column == self.columns:
            self.column = 0
            self.down(1)
        row = self.rows[self.row]
        row.extend([(" ", PLAIN)] * (self.column - len(row)))
        row[self.column : self.column + 1] = [(character, self.colour)]
        self.column += 1

    def lines(self):
        """The rows without blanks at their ends and without empty ones at the end of all."""
        rows = [row[: len("".join(character for character, _ in row).rstrip())] for row in self.rows]
        while rows and not rows[-1]:
            rows.pop()
        return rows


def run(command, columns):
    """What the terminal shows when the command has ended, and its exit status."""
    terminal = Terminal(columns)
    process, master = pty.fork()
    if process == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    output = b""
    try:
        while part := os.read(master, 65536):
            output += part
    except OSError:  # the command and all that it started have ended
        pass
    terminal.write(output.decode().replace("\r\n", "\n\r"))
    return terminal.lines(), os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


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
    parser.add_argument("--typed")
    parser.add_argument("--text", action="store_true")
    parser.add_argument("file")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    shown, status = run(arguments.command, arguments.columns)
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
