#!/usr/bin/env python3
"""Writes files/: small images in the ways in which formats store them, and files.safetensors: the pixels that Pillow reads from each, in color ("NAME.rgb"), in
grey ("NAME.l") and with alpha ("NAME.rgba"), turned as EXIF says. `python3 make_files.py` runs it, with Pillow, NumPy and safetensors."""
import pathlib
import struct
import zlib

import numpy
from PIL import Image, ImageOps
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
FILES = HERE / "files"
random = numpy.random.default_rng(7)
expected = {}


def picture(height, width, channels):
    """Smooth colors with some noise."""
    y, x = numpy.mgrid[0:height, 0:width]
    waves = [127 + 90 * numpy.sin(x / (3 + c) + y / (5 - c) + c) for c in range(channels)]
    noise = random.integers(-12, 13, (height, width, channels))
    return numpy.clip(numpy.stack(waves, -1) + noise, 0, 255).astype(numpy.uint8)


def add(name, image, **options):
    image.save(FILES / name, **options)
    read(name)


def read(name):
    image = ImageOps.exif_transpose(Image.open(FILES / name))
    for mode in ("RGB", "L", "RGBA"):
        pixels = numpy.asarray(image.convert(mode))
        expected[f"{name}.{mode.lower()}"] = numpy.ascontiguousarray(pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1))


def write_png(name, pixels, color_type):
    """Of 16 bits, which Pillow does not write in color."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, 0)
    (FILES / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    expected[f"{name}.16"] = numpy.ascontiguousarray(pixels.reshape(height, width, -1).transpose(2, 0, 1)).astype(numpy.int32)


FILES.mkdir(exist_ok=True)
color, grey, alpha = (Image.fromarray(picture(13, 18, 3)), Image.fromarray(picture(13, 18, 1)[..., 0]), Image.fromarray(picture(13, 18, 4)))
add("color_444.jpg", color, quality=90, subsampling=0)
add("color_422.jpg", color, quality=90, subsampling=1)
add("color_420.jpg", color, quality=75, subsampling=2)
add("progressive.jpg", color, quality=85, progressive=True)
add("grey.jpg", grey, quality=90)
add("cmyk.jpg", color.convert("CMYK"), quality=95)
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    add(f"turned_{orientation}.jpg", color, quality=90, subsampling=0, exif=exif)
add("large_420.jpg", Image.fromarray(picture(121, 163, 3)), quality=85, subsampling=2)
add("color.png", color)
add("grey.png", grey)
add("alpha.png", alpha)
add("grey_alpha.png", alpha.convert("LA"))
add("palette.png", color.quantize(9))
add("two_colors.png", grey.convert("1"))
transparent = color.quantize(9)
add("palette_alpha.png", transparent, transparency=3)
write_png("grey_16.png", random.integers(0, 65536, (7, 5)), 0)
write_png("color_16.png", random.integers(0, 65536, (7, 5, 3)), 2)
add("lossless.webp", color, lossless=True)
add("lossy.webp", color, quality=80)
add("alpha.webp", alpha, lossless=True, exact=True)
exif = Image.Exif()
exif[0x0112] = 6
add("turned_6.webp", color, lossless=True, exif=exif)
add("color.bmp", color)
add("palette.bmp", color.quantize(9))
add("grey.bmp", grey)
add("two_colors.bmp", grey.convert("1"))
add("alpha.bmp", alpha)
save_file(expected, HERE / "files.safetensors")
