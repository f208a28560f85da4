"""What a TableDataModule does to a batch, from the state that a checkpoint has of it: in a program without levin it is a part of the
program."""

import dataclasses
import re
from typing import Any

import torch

from levin_train.errors import LoadError


@dataclasses.dataclass
class Example:
    """An input of a program."""

    name: str
    tensor: torch.Tensor
    dimensions: list[Any]  # the name of a dimension that varies, or a size


_DROPPED = "The run leaves out rows with NaN (missing: drop), which this file does not: what it gives for them is of no use."


def of(manifest, inputs):
    """A function of a batch's tensors, as the data's files have them, that gives those of the package's `inputs`; an example of each; and
    what is to be told about them."""
    examples = []
    for each in inputs:
        sizes = [size if isinstance(size, int) else 3 for size in each["shape"]]
        examples.append(Example(each["name"], torch.zeros(sizes, dtype=getattr(torch, each["dtype"])), each["shape"]))
    prepares, is_table = manifest.get("datamodule_preparations"), manifest.get("datamodule_class") in ("TableDataModule", "ParquetDataModule")
    if prepares and not is_table:
        raise LoadError(f"The run's {manifest.get('datamodule_class')} prepares batches ({'; '.join(prepares)}), which only its C++ code can. "
                        "Use levin::Predictor.")
    options, state = manifest.get("datamodule_hyper_parameters", {}), manifest.get("datamodule", {})
    replacement = _replacement(options.get("missing"), state.get("columns", [])) if is_table else None
    notes = [_DROPPED] if is_table and _drops(options.get("missing")) else []
    if not prepares and replacement is None:
        return lambda *batch: batch, examples, notes
    if state.get("categories"):
        raise LoadError("The data has columns of categories, which a program without levin would take as numbers: use levin::Predictor.")
    position = next((index for index, example in enumerate(examples) if example.name == "features"), 0)
    shape, read = examples[position].dimensions[1:], state["shape"]
    numbers = {name: torch.tensor(state[name], dtype=torch.float64).reshape(read) for name in ("mean", "deviation") if name in state}
    # As levin has it: a column without a deviation stays as it is.
    divisor = torch.where(numbers["deviation"] > 0, numbers["deviation"], 1.0) if numbers else None
    wanted, taken = examples[position].tensor.dtype, torch.float64 if numbers else torch.float32
    # Tensors, as ONNX makes 32 bits of a Python number.
    scale = torch.tensor(options["scale"], dtype=taken) if options.get("scale", 1.0) != 1.0 else None
    replacement = replacement.to(taken) if replacement is not None else None
    examples[position] = Example(examples[position].name, torch.zeros([3, *read], dtype=taken), ["batch", *read])

    def prepare(*batch):
        features = batch[position]
        if replacement is not None:
            features = torch.where(torch.isnan(features), replacement, features)
        if scale is not None:
            features = features * scale
        if numbers:
            features = (features - numbers["mean"]) / divisor
        prepared = list(batch)
        prepared[position] = features.to(wanted).reshape([features.shape[0], *shape])
        return prepared

    return prepare, examples, notes


def _replacement(missing, columns):
    """What stands for NaN: a number, or one for each column, which is NaN where nothing stands for it; or None. `missing` is the data
    module's option: null, a number, "drop", or a map of these by the names of columns, or of lists, whose columns are "name[0]" and so on."""
    def is_of(name, column):
        return name == column or column.startswith(f"{name}[")

    def of_column(column):
        rule = next((missing[name] for name in sorted(missing) if is_of(name, column)), None)
        return rule if _is_number(rule) else torch.nan

    if not isinstance(missing, dict):
        return torch.tensor(missing, dtype=torch.float64) if _is_number(missing) else None
    for name, rule in missing.items():
        is_placed = any(is_of(name, column) for column in columns)  # others are of labels, or of columns that are ignored
        if _is_number(rule) and not is_placed and (not columns or re.fullmatch(r"\d+", name)):
            raise LoadError(f"The run's option missing says what stands for NaN in column '{name}', and the checkpoint does not say where that "
                            "column is. Name the columns in the file's first line and in missing, and train again.")
    found = torch.tensor([of_column(column) for column in columns], dtype=torch.float64)
    return None if bool(found.isnan().all()) else found


def _drops(missing):
    return "drop" in missing.values() if isinstance(missing, dict) else missing == "drop"


def _is_number(rule):
    return isinstance(rule, (int, float))
