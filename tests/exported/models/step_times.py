"""The time of a package's training step against that of the module in Python, and of torch.compile()."""

import json
import statistics
import time
import zipfile

import torch
import torch._inductor.package

from levin_train.steps import Weights
from levin_train.structure import named_leaves

ROUNDS, SECONDS = 7, 0.1


def step_times(module, batches, path, against):
    """How long a step of the package takes, as a share of the others': the median of rounds that alternate."""
    for name in ("log", "log_dict"):
        object.__setattr__(module, name, lambda *_, **__: None)
    step = package_step(module, batches[0], path)
    others = {"eager": lambda: python_step(module.training_step, module, batches[0])}
    if "compile" in against:
        compiled = torch.compile(module.training_step)
        others["compile"] = lambda: python_step(compiled, module, batches[0])
    try:
        for each in (step, *others.values()):
            each()
    except Exception as error:  # a step that needs the trainer, or that torch.compile() refuses
        return {"problem": f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"}
    ratios = {name: [] for name in others}
    for _ in range(ROUNDS):
        mine = seconds(step)
        for name, other in others.items():
            ratios[name].append(mine / seconds(other))
    return {name: statistics.median(values) for name, values in ratios.items()}


def seconds(step):
    count, begin = 0, time.perf_counter()
    while count < 3 or time.perf_counter() - begin < SECONDS:
        step()
        count += 1
    return (time.perf_counter() - begin) / count


def package_step(module, batch, path):
    with zipfile.ZipFile(path) as archive:
        described = json.loads(archive.read(next(name for name in archive.namelist() if name.endswith("extra/levin.json"))))
    loaded = torch._inductor.package.load_package(str(path), "training_step")
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
