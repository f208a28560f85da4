"""Compares levin's tokens with those of Hugging Face's library: compare.py LEVIN FOLDER, the folder being that of make_corpora.py.
Prints a line for each tokenizer, with the times of both on one core; ends with status 1 for a difference. Needs `tokenizers`, numpy."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import numpy
from tokenizers import Tokenizer


def levin_tokens(levin, tokenizer, files, folder):
    output = folder / "tokens.bin"
    subprocess.run([levin, "tokens", "encode", *map(str, files), "--tokenizer", str(tokenizer), "-o", str(output), "--special-tokens",
                    "--dtype", "uint32", "--threads", "1"], check=True, stdout=subprocess.PIPE)
    tokens = numpy.fromfile(output, dtype=numpy.uint32)
    ends = numpy.fromfile(f"{output}.index", dtype=numpy.uint64, offset=48)
    return numpy.split(tokens, ends[:-1].astype(int))


def seconds_of(levin, tokenizer, files, folder):
    """Of encoding alone, as levin says it."""
    command = [levin, "tokens", "encode", *map(str, files), "--tokenizer", str(tokenizer), "-o", str(folder / "tokens.bin"), "--threads", "1"]
    begin = time.monotonic()
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split(" in ")[-1].split()
    return float(said[0]) * {"s": 1, "ms": 1e-3, "us": 1e-6}[said[1]], time.monotonic() - begin


def compare(levin, path, files, folder):
    peer = Tokenizer.from_file(str(path))
    texts = [file.read_bytes().decode("utf-8", "replace") for file in files]
    begin = time.monotonic()
    expected = [peer.encode(text).ids for text in texts]
    peer_seconds = time.monotonic() - begin
    different = []
    for file, text, ours, theirs in zip(files, texts, levin_tokens(levin, path, files, folder), expected):
        if ours.tolist() == theirs:
            continue
        place = next((i for i, (one, other) in enumerate(zip(ours, theirs)) if one != other), min(len(ours), len(theirs)))
        near = peer.decode(theirs[max(place - 5, 0):place + 5], skip_special_tokens=False)
        different.append(f"{file.name} at {place} of {len(theirs)} ({len(ours)}): {near!r}: {ours[place:place + 5]} {theirs[place:place + 5]}")
    seconds, _ = seconds_of(levin, path, files, folder)
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    print(f"{path.stem:32} {'equal' if not different else 'DIFFERENT':10} {megabytes / seconds:7.1f} MB/s, tokenizers {megabytes / peer_seconds:6.1f}: "
          f"{peer_seconds / seconds:.1f} x", flush=True)
    for line in different[:3]:
        print("   ", line)
    return not different


def main():
    levin, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    wanted = sys.argv[3:]
    files = sorted(folder.glob("*.txt"))
    with tempfile.TemporaryDirectory() as scratch:
        equal = [compare(levin, path, files, pathlib.Path(scratch)) for path in sorted(folder.glob("*.json"))
                 if not wanted or path.stem in wanted]
    sys.exit(0 if all(equal) else 1)


if __name__ == "__main__":
    main()
