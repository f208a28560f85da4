"""Writes defaults.yaml: what LightningCLI writes into a config.yaml of each class with nothing but defaults, and the flags that the
Trainer had in other versions, with their defaults.

    python make_defaults.py TRAINER.py… >defaults.yaml

It takes a Python with lightning and jsonargparse[signatures], and trainer.py of Lightning's earlier versions (as 1.5.10.py), which are
read and not run. Arguments that are required, and have no default, are given here.
"""
import ast
import contextlib
import inspect
import io
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")

import lightning.pytorch as pl
import lightning.pytorch.callbacks
import lightning.pytorch.demos.boring_classes  # BoringModel
import lightning.pytorch.loggers
import lightning.pytorch.profilers
import lightning.pytorch.strategies
import torch
import yaml
from lightning.pytorch.cli import LightningCLI, ReduceLROnPlateau

REQUIRED = {
    "EarlyStopping": {"monitor": "val_loss"},
    "GradientAccumulationScheduler": {"scheduling": {"0": 2}},
    "ModelPruning": {"pruning_fn": "l1_unstructured"},
    "OnExceptionCheckpoint": {"dirpath": "checkpoints"},
    "StochasticWeightAveraging": {"swa_lrs": 0.1},
    "ThroughputMonitor": {"batch_size_fn": "builtins.len"},
    "Timer": {"interval": "step"},
    "CSVLogger": {"save_dir": "."},
    "TensorBoardLogger": {"save_dir": "."},
    "CosineAnnealingLR": {"T_max": 3},
    "CosineAnnealingWarmRestarts": {"T_0": 1},
    "CyclicLR": {"base_lr": 0.1, "max_lr": 1.0},
    "ExponentialLR": {"gamma": 0.1},
    "MultiStepLR": {"milestones": [1]},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": 10},
    "ReduceLROnPlateau": {"monitor": "val_loss"},
    "StepLR": {"step_size": 1},
}


def written(*arguments):
    """The configuration that LightningCLI prints, or None where it refuses the arguments."""
    output = io.StringIO()
    sys.argv = ["main.py"]  # which LightningCLI compares with args
    command = ["fit", "--model=BoringModel", "--data=BoringDataModule", *arguments, "--print_config"]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        try:
            LightningCLI(pl.LightningModule, pl.LightningDataModule, subclass_mode_model=True, subclass_mode_data=True, args=command)
        except SystemExit as end:
            if end.code:
                return None
    return yaml.safe_load(output.getvalue())


def flow(value):
    return yaml.safe_dump(value, default_flow_style=True, width=10**6)


def spec_of(module, name):
    return {"class_path": f"{module}.{name}", "init_args": REQUIRED.get(name, {})}


def flag(option, module, names):
    found = {}
    for name in sorted(set(names) - {"Strategy", "ParallelStrategy", "Profiler"}):  # bases of others
        config = written(f"--trainer.{option}=" + flow(spec_of(module, name)))
        if config is None:
            continue
        spec = config["trainer"][option]
        spec = spec[0] if isinstance(spec, list) else spec
        found[name] = spec.get("init_args", {}) if isinstance(spec, dict) else {}
    return found


def classes(module, base, but=()):
    return [n for n, c in vars(module).items() if inspect.isclass(c) and issubclass(c, base) and not n.startswith("_") and n not in but]


def section(names, option, module, *others):
    found = {}
    for name in sorted(names):
        path = "lightning.pytorch.cli" if name == "ReduceLROnPlateau" else module
        config = written(*others, f"--{option}=" + flow(spec_of(path, name)))
        if config is not None:
            found[name] = config[option]["init_args"]
    return found


def earlier_flags(files):
    """{flag: every default that it had}, of Trainers whose sources are read. Defaults that are no literals are left out."""
    flags = {}
    for file in files:
        tree = ast.parse(pathlib.Path(file).read_text())
        trainer = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Trainer")
        init = next(node for node in trainer.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
        named = init.args.args[len(init.args.args) - len(init.args.defaults):]
        for argument, default in [*zip(named, init.args.defaults), *zip(init.args.kwonlyargs, init.args.kw_defaults)]:
            defaults = flags.setdefault(argument.arg, [])
            with contextlib.suppress(ValueError):
                value = ast.literal_eval(default)
                if not any(value is known or (type(value) is type(known) and value == known) for known in defaults):
                    defaults.append(value)
    return flags


def main(trainers):
    schedulers = torch.optim.lr_scheduler
    whole = written()
    result = {
        "trainer": whole["trainer"],
        "top": {key: value for key, value in whole.items() if key not in ("trainer", "model", "data")},
        "callback": flag("callbacks", "lightning.pytorch.callbacks", lightning.pytorch.callbacks.__all__),
        "logger": flag("logger", "lightning.pytorch.loggers", lightning.pytorch.loggers.__all__),
        "strategy": flag("strategy", "lightning.pytorch.strategies", lightning.pytorch.strategies.__all__),
        "profiler": flag("profiler", "lightning.pytorch.profilers", lightning.pytorch.profilers.__all__),
        "optimizer": section(classes(torch.optim, torch.optim.Optimizer, {"Optimizer"}), "optimizer", "torch.optim"),
        "lr_scheduler": section([*classes(schedulers, schedulers.LRScheduler, {"LRScheduler"}), "ReduceLROnPlateau"], "lr_scheduler",
                                "torch.optim.lr_scheduler", "--optimizer=torch.optim.SGD"),
        "any_trainer": earlier_flags(trainers),
    }
    print(f"# Written by make_defaults.py with Lightning {pl.__version__} and PyTorch {torch.__version__.split('+')[0]}.")
    print(yaml.safe_dump(result, sort_keys=False, width=200), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
