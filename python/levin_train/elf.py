"""Libraries that a compiled step needs."""

import os
import shutil
import struct
import subprocess

_LOAD, _DYNAMIC = 1, 2  # of program headers
_NEEDED, _STRINGS = 1, 5  # of the dynamic section


def replace_needed(path, name, other):
    """Lets a library need `other`, which it needs already, instead of `name`: an ELF file of 64 bits, little-endian."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    if data[:6] != b"\x7fELF\x02\x01":
        return
    (headers,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, headers + index * size) for index in range(count)]
    begin, length = next((offset, length) for kind, _, offset, _, _, length in segments if kind == _DYNAMIC)
    entries = [(place, *struct.unpack_from("<QQ", data, place)) for place in range(begin, begin + length, 16)]
    address = next(value for _, tag, value in entries if tag == _STRINGS)
    strings = next(offset + address - start for kind, _, offset, start, _, length in segments
                   if kind == _LOAD and start <= address < start + length)

    def text(offset):
        return bytes(data[strings + offset:data.index(0, strings + offset)]).decode()

    needed = {text(value): (place, value) for place, tag, value in entries if tag == _NEEDED}
    if name in needed and other in needed:
        struct.pack_into("<Q", data, needed[name][0] + 8, needed[other][1])
        with open(path, "wb") as file:
            file.write(data)


def strip(path):
    """Takes out of a library what only debuggers read, four fifths of it, where binutils is installed."""
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", path], check=True)


def forget_folders(path, folders):
    """Takes folders of this machine out of the texts of a library, such as those that errors name. Texts keep their lengths."""
    with open(path, "rb") as file:
        data = file.read()
    for folder in sorted(folders, key=len, reverse=True):
        name = os.fsencode(folder)
        data = data.replace(name, b"/torch".ljust(len(name), b"/"))
    with open(path, "wb") as file:
        file.write(data)
