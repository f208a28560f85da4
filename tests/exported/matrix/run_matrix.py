"""Exports small real modules, and trains each with levin and with Lightning on the same batches: one table of what differs.

What levin has trained then goes back: Python's module with these weights validates and predicts as levin does, and Lightning continues
from levin's checkpoint as levin itself.

    python tests/exported/matrix/run_matrix.py --build build [NAME ...]

Exits with 1 when a module fares worse than expected.json says. Packages are stored in BUILD/matrix until levin's Python or the
modules change.
"""

import argparse
import contextlib
import json
import logging
import pathlib
import subprocess
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import lightning  # noqa: E402
import torch  # noqa: E402

from runs import ROOT, SEED, Recorded, difference, levin_program, overridden, sources_hash, with_levin, with_lightning, write_batches  # noqa: E402

import levin_train  # noqa: E402
from cases import CASES  # noqa: E402
from levin_train import safetensors  # noqa: E402
from levin_train.structure import named_leaves  # noqa: E402

import dense, images, sequences  # noqa: E402,E401,F401 - they fill CASES

STEPS, ALLOWED = 100, 1e-5
SOURCES = sources_hash(HERE)


def exported(case, folder, module, batches):
    """Exports a module into the folder, or finds what was exported there. Gives the reason when it is refused."""
    refusal = folder / "refused.txt"
    if not refusal.exists() and not (folder / "m.pt2").exists():
        try:
            levin_train.export(module, batches[0], folder / "m.pt2", **case.export)
        except levin_train.ExportError as error:
            refusal.write_text(str(error))
    return refusal.read_text() if refusal.exists() else None


def furthest(theirs, ours):
    """The largest difference of two values or tensors by name, relative to the larger of its size and 0.1."""
    if set(theirs) - set(ours):
        raise RuntimeError(f"{sorted(set(theirs) - set(ours))} is missing among {sorted(ours)}")
    off = 0.0
    for name, value in theirs.items():
        a, b = (torch.as_tensor(each, dtype=torch.float64) for each in (value, ours[name]))
        off = max(off, float(((a - b).abs() / a.abs().clamp(min=0.1)).max()) if a.numel() else 0.0)
    return off


def back(case, module, folder, build, train, validation, rows, version):
    """How far Python's module with the weights that levin trained is from levin: in validation, in prediction, and in another epoch."""
    checkpoint = next((version / "checkpoints").glob("*.ckpt"))
    mine = levin_train.load(case.module(), checkpoint)
    off = {}
    quiet = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    values = {name: rows[-1][name] for name in rows[-1] if name.startswith("val")}
    if overridden(module, "validation_step") and values:
        found = lightning.Trainer(**quiet).validate(mine, Recorded(validation), verbose=False)[0]
        off["validate"] = furthest(values, {name: float(value) for name, value in found.items()})
    if overridden(module, "predict_step"):
        _, predicted = with_levin(folder, build, 1, "predict", ckpt_path=checkpoint, enable_checkpointing=False, callbacks=[
            {"class_path": "PredictionWriter", "init_args": {"format": "safetensors"}}], **case.trainer)
        tensors = safetensors.from_file(str(next(predicted.glob("*.safetensors"))))[0]
        mine.eval()
        with torch.no_grad():
            outputs = [named_leaves(mine.predict_step(batch, index), "output")[0] for index, batch in enumerate(validation)]
        off["predict"] = furthest({name: torch.cat([dict(each)[name] for each in outputs]) for name, _ in outputs[0]}, tensors)
    if not module.draws_random_numbers:
        levin_program(folder, build, "export", checkpoint, "--to", "lightning", "--output", folder / "lightning.ckpt", "--force")
        further, _ = with_levin(folder, build, 1, ckpt_path=checkpoint, max_epochs=2, **case.trainer)
        steps, last = with_lightning(case.module(), train, validation, 2, folder / "lightning.ckpt", **case.trainer)
        off["continue"] = difference(steps, last, [row for row in further if row["epoch"] == 1])[0]
    return off


def run(case, build, ranks_wanted):
    """One line of the table: {"refused", "differences": {ranks: number}, "back": {what: number}, "problem"}."""
    folder = build / "matrix" / f"{case.name}-{SOURCES}"
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    module = case.module()
    train, validation = ([case.batch(case.rows) for _ in range(count)] for count in (STEPS, 5))
    begin = time.monotonic()
    refused = exported(case, folder, module, train)
    line = {"seconds": time.monotonic() - begin, "refused": refused, "differences": {}, "back": {}, "problem": ""}
    if refused:
        return line
    write_batches(folder / "batches.safetensors", {"train": train, "val": validation, "predict": validation})
    steps, last = with_lightning(module, train, validation, **case.trainer)
    for ranks in [1, *(count for count in case.ranks if count in ranks_wanted)]:
        try:
            rows, version = with_levin(folder, build, ranks, unused=case.unused, **case.trainer)
            off, name = difference(steps, last, rows)
            line["differences"][str(ranks)] = off
            if off > allowed(case):
                line["problem"] += f" {name} differs by {off:.2g} on {ranks} ranks."
            if ranks == 1:
                line["back"] = back(case, module, folder, build, train, validation, rows, version)
                line["problem"] += "".join(f" {what}: {off:.2g}." for what, off in line["back"].items() if off > allowed(case))
        except (RuntimeError, ValueError, KeyError, StopIteration, subprocess.TimeoutExpired) as error:
            line["problem"] += f" {ranks} ranks: {type(error).__name__}: {error}"
    return line


def allowed(case):
    return ALLOWED if case.export.get("precision", "32-true") == "32-true" else 2e-2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of modules; all without them")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="with bin/levin and lib/librecorded_batches.so")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4], help="numbers of ranks besides one")
    parser.add_argument("--list", action="store_true", help="print the names")
    options = parser.parse_args()
    if options.list:
        print("\n".join(CASES))
        return 0
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    expected = json.loads((HERE / "expected.json").read_text())
    worse = []
    print("| module | exported | largest difference by ranks | and back | export, s |\n|---|---|---|---|---|")
    for name in options.names or CASES:
        with contextlib.redirect_stdout(sys.stderr):
            line = run(CASES[name], options.build.resolve(), options.ranks)
        differences = ", ".join(f"{ranks}: {off:.1e}" for ranks, off in line["differences"].items())
        returned = ", ".join(f"{what}: {off:.1e}" for what, off in line["back"].items())
        print(f"| {name} | {line['refused'] or 'yes'} | {differences}{line['problem']} | {returned} | {line['seconds']:.0f} |", flush=True)
        wanted = expected.get(name, "yes")
        if wanted not in (line["refused"] or "yes") or line["problem"]:
            worse.append(name)
    if worse:
        print(f"Worse than expected: {', '.join(worse)}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
