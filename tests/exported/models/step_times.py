"""The time of a package's training step against that of the module in Python, and of torch.compile()."""

import json
import statistics
import time
import zipfile

import torch

from levin_train import torch_patches
from levin_train.steps import Weights
from levin_train.structure import named_leaves

ROUNDS, SECONDS = 7, 0.1


def step_times(module, batches, path, against):
    """How long a step of the package takes, as a share of each other's ("eager", "compile"): the median of rounds that alternate, or why
    the other does not run alone, as a step that needs the trainer."""
    for name in ("log", "log_dict"):
        object.__setattr__(module, name, lambda *_, **__: None)
    step = package_step(module, batches[0], path)
    return {name: share_of(step, module, batches[0], name) for name in against}


def share_of(step, module, batch, name):
    other = module.training_step if name == "eager" else torch.compile(module.training_step)
    try:
        for _ in range(2):
            step()
            python_step(other, module, batch)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
    return statistics.median(seconds(step) / seconds(lambda: python_step(other, module, batch)) for _ in range(ROUNDS))


def seconds(step):
    count, begin = 0, time.perf_counter()
    while count < 3 or time.perf_counter() - begin < SECONDS:
        step()
        count += 1
    return (time.perf_counter() - begin) / count


def package_step(module, batch, path):
    with zipfile.ZipFile(path) as archive:
        described = json.loads(archive.read(next(name for name in archive.namelist() if name.endswith("extra/levin.json"))))
    loaded = torch_patches.loaded(str(path), "training_step")
    weights = Weights.of(module)
    tensors = {**weights.parameters, **weights.buffers}
    leaves = dict(named_leaves(batch)[0])
    inputs = [torch.tensor(0) if entry["kind"] == "number" else torch.as_tensor((leaves if entry["kind"] == "batch" else tensors)[entry["name"]])
              .detach().contiguous() for entry in described["entries"]["training_step"]["inputs"]]
    return lambda: loaded.loader.boxed_run(list(inputs))


def python_step(training_step, module, batch):
    result = training_step(batch, 0)
    (result["loss"] if isinstance(result, dict) else result).backward()
    for parameter in module.parameters():
        parameter.grad = None
