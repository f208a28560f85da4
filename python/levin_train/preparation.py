"""What a TableDataModule does to a batch, from the state that a checkpoint has of it: in a program without levin it is a part of the
program."""

import dataclasses
from typing import Any

import torch

from levin_train.errors import LoadError


@dataclasses.dataclass
class Example:
    """An input of a program."""

    name: str
    tensor: torch.Tensor
    dimensions: list[Any]  # the name of a dimension that varies, or a size


def of(manifest, inputs):
    """A function of a batch's tensors, as the data's files have them, that gives those of the package's `inputs`; and an example of each."""
    examples = []
    for each in inputs:
        sizes = [size if isinstance(size, int) else 3 for size in each["shape"]]
        examples.append(Example(each["name"], torch.zeros(sizes, dtype=getattr(torch, each["dtype"])), each["shape"]))
    prepares = manifest.get("datamodule_preparations")
    if not prepares:
        return lambda *batch: batch, examples
    if manifest.get("datamodule_class") not in ("TableDataModule", "ParquetDataModule"):
        raise LoadError(f"The run's {manifest.get('datamodule_class')} prepares batches ({'; '.join(prepares)}), which only its C++ code can. "
                        "Use levin::Predictor.")
    options, state = manifest["datamodule_hyper_parameters"], manifest["datamodule"]
    if state.get("categories"):
        raise LoadError("The data has columns of categories, which a program without levin would take as numbers: use levin::Predictor.")
    position = next((index for index, example in enumerate(examples) if example.name == "features"), 0)
    shape, read = examples[position].dimensions[1:], state["shape"]
    scale = options.get("scale", 1.0)
    numbers = {name: torch.tensor(state[name], dtype=torch.float64).reshape(read) for name in ("mean", "deviation") if name in state}
    # As levin has it: a column without a deviation stays as it is.
    divisor = torch.where(numbers["deviation"] > 0, numbers["deviation"], 1.0) if numbers else None
    wanted = examples[position].tensor.dtype
    examples[position] = Example(examples[position].name, torch.zeros([3, *read], dtype=torch.float64 if numbers else torch.float32), ["batch", *read])

    def prepare(*batch):
        features = batch[position]
        if scale != 1.0:
            features = features * scale
        if numbers:
            features = (features - numbers["mean"]) / divisor
        prepared = list(batch)
        prepared[position] = features.to(wanted).reshape([features.shape[0], *shape])
        return prepared

    return prepare, examples
