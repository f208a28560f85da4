"""Runs of Lightning and of levin on the same batches, and how far they differ: what the matrix and the kit of models share."""

import copy
import csv
import hashlib
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import lightning  # noqa: E402
import torch  # noqa: E402

from levin_train import safetensors  # noqa: E402
from levin_train.structure import named_leaves  # noqa: E402

SEED = 1


def sources_hash(folder):
    """Of levin's Python, of these runs, and of the modules in a folder."""
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sorted([*(ROOT / "python/levin_train").glob("*.py"), pathlib.Path(__file__), *folder.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def write_batches(path, stages):
    """Writes the batches of each stage for the data module RecordedBatches."""
    tensors = {f"{stage}.{index}.{name}": torch.as_tensor(leaf) for stage, batches in stages.items() for index, batch in enumerate(batches)
               for name, leaf in named_leaves(batch)[0] if isinstance(leaf, torch.Tensor)}
    path.write_bytes(safetensors.to_bytes(tensors))


class Recorded:
    """A loader of batches that draws no random numbers. A step may change its batch."""

    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        return iter(copy.deepcopy(self._batches))

    def __len__(self):
        return len(self._batches)


def with_lightning(module, train, validation, epochs=1, ckpt_path=None, **options):
    """What Lightning logs: values of each step, and those at the end, by name. `options`: of the trainer."""
    steps, package = [], lightning_of(module)

    class Watch(package.Callback):
        def on_train_start(self, trainer, module):
            torch.manual_seed(SEED)
            self.random = torch.get_rng_state()

        def on_train_end(self, trainer, module):
            module.draws_random_numbers = not torch.equal(self.random, torch.get_rng_state())

        def on_train_batch_end(self, trainer, *_):
            steps.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    trainer = package.Trainer(max_epochs=epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_model_summary=False,
                                enable_progress_bar=False, num_sanity_val_steps=0, callbacks=[Watch()], **options)
    trainer.fit(module, Recorded(train), Recorded(validation) if overridden(module, "validation_step") else None, ckpt_path=ckpt_path)
    return steps, {name: float(value) for name, value in trainer.callback_metrics.items()}


def overridden(module, name):
    return getattr(type(module), name) is not getattr(lightning_of(module).LightningModule, name)


def lightning_of(module):
    """The package of Lightning that a module is for: lightning, or pytorch_lightning."""
    return lightning if isinstance(module, lightning.LightningModule) else sys.modules["pytorch_lightning"]


def levin_program(folder, build, *arguments):
    run = subprocess.run(list(map(str, [build / "bin/levin", *arguments])), capture_output=True, text=True, timeout=300, cwd=folder)
    if run.returncode != 0:
        raise RuntimeError(next(iter(line for line in run.stderr.splitlines() if "error" in line), run.stderr[-300:]))


def with_levin(folder, build, ranks, entry="fit", unused=False, **trainer):
    """The rows of metrics.csv of a run with so many ranks, and the folder of the run. `unused`: some parameters take no part in the loss."""
    strategy = {"class_path": "ddp", "init_args": {"find_unused_parameters": True}} if unused else "ddp"
    root = folder / f"{entry}-{ranks}-{trainer.get('max_epochs', 1)}"
    ckpt_path = trainer.pop("ckpt_path", None)
    data = {"plugins": [str(build / "lib/librecorded_batches.so")], "seed_everything": SEED,
            "data": {"class_path": "RecordedBatches", "init_args": {"path": str(folder / "batches.safetensors")}},
            "trainer": {"max_epochs": 1, "devices": ranks, "strategy": strategy if ranks > 1 else "auto", "threads": 1, "log_every_n_steps": 1,
                        "num_sanity_val_steps": 0, "enable_progress_bar": False, "enable_model_summary": False,
                        "default_root_dir": str(root), "logger": {"class_path": "CSVLogger"}, **trainer}}
    (folder / "data.yaml").write_text(json.dumps(data))
    levin_program(folder, build, entry, "--config", folder / "m.yaml", "--config", folder / "data.yaml",
                  *([f"--ckpt_path={ckpt_path}"] if ckpt_path else []))
    version = max((root / "logs").iterdir(), key=lambda path: path.stat().st_mtime)
    if entry == "predict":
        return [], version
    if not (version / "metrics.csv").exists():  # nothing is logged
        return [], version
    with open(version / "metrics.csv", encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)], version


def difference(steps, last, rows, left_out=()):
    """The largest difference of a value, relative to the larger of its size and 0.1, and the name of the value. `left_out`: names that the
    package does not log."""
    worst = (0.0, "")
    # Of what is logged for steps and epochs Lightning has the name without an ending besides.
    names = {name for name in last if name not in ("epoch", "step", *left_out) and f"{name}_step" not in last}
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
