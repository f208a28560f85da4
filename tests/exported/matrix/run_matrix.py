"""Exports small real modules, and trains each with levin and with Lightning on the same batches: one table of what differs.

    python tests/exported/matrix/run_matrix.py --build build [NAME ...]

Exits with 1 when a module fares worse than expected.json says. Packages are kept in BUILD/matrix until levin's Python or the
modules change.
"""

import argparse
import contextlib
import csv
import hashlib
import json
import logging
import pathlib
import subprocess
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(ROOT / "python")]

import lightning  # noqa: E402
import torch  # noqa: E402

import levin  # noqa: E402
from cases import CASES  # noqa: E402
from levin import safetensors  # noqa: E402
from levin.batches import named_leaves  # noqa: E402

import dense, images, sequences  # noqa: E402,E401,F401 - they fill CASES

SEED, STEPS, ALLOWED = 1, 100, 1e-5


def sources_hash():
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sorted([*(ROOT / "python/levin").glob("*.py"), *HERE.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


SOURCES = sources_hash()


def exported(case, folder, module, batches):
    """Exports a module into the folder, or finds what was exported there. Gives the reason when it is refused."""
    refusal = folder / "refused.txt"
    if not refusal.exists() and not (folder / "m.pt2").exists():
        try:
            levin.export(module, batches[0], folder / "m.pt2", **case.export)
        except levin.ExportError as error:
            refusal.write_text(str(error))
    return refusal.read_text() if refusal.exists() else None


class Recorded:
    """A loader of batches that draws no random numbers."""

    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        return iter(self._batches)

    def __len__(self):
        return len(self._batches)


def with_lightning(case, module, train, validation):
    """What Lightning logs: values of each step, and those at the end, by name."""
    steps = []

    class Watch(lightning.Callback):
        def on_train_start(self, trainer, module):
            torch.manual_seed(SEED)

        def on_train_batch_end(self, trainer, *_):
            steps.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_model_summary=False,
                                enable_progress_bar=False, num_sanity_val_steps=0, callbacks=[Watch()], **case.trainer)
    trainer.fit(module, Recorded(train), Recorded(validation) if overridden(module, "validation_step") else None)
    return steps, {name: float(value) for name, value in trainer.callback_metrics.items()}


def overridden(module, name):
    return getattr(type(module), name) is not getattr(lightning.LightningModule, name)


def with_levin(case, folder, build, ranks):
    """The rows of metrics.csv of a run with so many ranks."""
    strategy = {"class_path": "ddp", "init_args": {"find_unused_parameters": True}} if case.unused else "ddp"
    data = {"plugins": [str(build / "lib/librecorded_batches.so")], "seed_everything": SEED,
            "data": {"class_path": "RecordedBatches", "init_args": {"path": str(folder / "batches.safetensors")}},
            "trainer": {"max_epochs": 1, "devices": ranks, "strategy": strategy if ranks > 1 else "auto", "threads": 1, "log_every_n_steps": 1,
                        "num_sanity_val_steps": 0, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
                        "default_root_dir": str(folder / f"ranks{ranks}"), "logger": {"class_path": "CSVLogger"}, **case.trainer}}
    (folder / "data.yaml").write_text(json.dumps(data))
    command = [build / "bin/levin", "fit", "--config", folder / "m.yaml", "--config", folder / "data.yaml"]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, cwd=folder)
    if run.returncode != 0:
        raise RuntimeError(next(iter(line for line in run.stderr.splitlines() if "error" in line), run.stderr[-300:]))
    newest = max((folder / f"ranks{ranks}").rglob("metrics.csv"), key=lambda path: path.stat().st_mtime)
    with open(newest, encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]


def difference(steps, last, rows):
    """The largest difference of a value, relative to the larger of its size and 0.1, and the name of the value."""
    worst = (0.0, "")
    names = {name for name in last if name not in ("epoch", "step")}
    if not names:
        raise RuntimeError("nothing is logged")
    for name in names:
        theirs = [row[name] for row in rows if name in row]
        ours = [step[name] for step in steps] if name in steps[0] else [last[name]]
        if len(theirs) != len(ours):
            raise RuntimeError(f"{name}: {len(ours)} values of Lightning, {len(theirs)} of levin")
        for a, b in zip(ours, theirs):
            off = abs(a - b) / max(0.1, abs(a))
            worst = max(worst, (off if off == off else float("inf"), name))
    return worst


def run(case, build, ranks_wanted):
    """One line of the table: {"exported", "differences": {ranks: number}, "problem"}."""
    folder = build / "matrix" / f"{case.name}-{SOURCES}"
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    module = case.module()
    train, validation = ([case.batch(case.rows) for _ in range(count)] for count in (STEPS, 5))
    begin = time.monotonic()
    refused = exported(case, folder, module, train)
    line = {"seconds": time.monotonic() - begin, "refused": refused, "differences": {}, "problem": ""}
    if refused:
        return line
    tensors = {f"{stage}.{index}.{name}": leaf for stage, batches in (("train", train), ("val", validation))
               for index, batch in enumerate(batches) for name, leaf in named_leaves(batch)[0]}
    (folder / "batches.safetensors").write_bytes(safetensors.to_bytes(tensors))
    steps, last = with_lightning(case, module, train, validation)
    for ranks in [1, *(count for count in case.ranks if count in ranks_wanted)]:
        try:
            off, name = difference(steps, last, with_levin(case, folder, build, ranks))
            line["differences"][str(ranks)] = off
            if off > allowed(case):
                line["problem"] += f" {name} differs by {off:.2g} on {ranks} ranks."
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            line["problem"] += f" {ranks} ranks: {error}"
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
    print("| module | exported | largest difference by ranks | export, s |\n|---|---|---|---|")
    for name in options.names or CASES:
        with contextlib.redirect_stdout(sys.stderr):
            line = run(CASES[name], options.build.resolve(), options.ranks)
        differences = ", ".join(f"{ranks}: {off:.1e}" for ranks, off in line["differences"].items())
        print(f"| {name} | {line['refused'] or 'yes'} | {differences}{line['problem']} | {line['seconds']:.0f} |", flush=True)
        wanted = expected.get(name, "yes")
        if wanted not in (line["refused"] or "yes") or line["problem"]:
            worse.append(name)
    if worse:
        print(f"Worse than expected: {', '.join(worse)}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
