"""levin_train.load(): what levin has saved, as tensors, or in the Python module that it trained."""

import glob
import os
import zipfile
from typing import Any, TypeVar, overload

import torch

from levin_train import safetensors
from levin_train.errors import LoadError
from levin_train.steps import Weights

_PREFIX = "state_dict."


_Module = TypeVar("_Module", bound=torch.nn.Module)


@overload
def load(module: str | os.PathLike[str]) -> dict[str, torch.Tensor]: ...


@overload
def load(module: _Module, path: str | os.PathLike[str], strict: bool = True) -> _Module: ...


def load(module: torch.nn.Module | str | os.PathLike[str], path: str | os.PathLike[str] | None = None, strict: bool = True) -> Any:
    """load("last.ckpt"): the tensors of a levin checkpoint or safetensors file, by name, with the module's weights under their own names.
    load(module, "last.ckpt"): loads these weights into a module, and gives the module.

    strict: whether all weights of the module must be in the file, and no others. A weight of another shape is always an error, and so is a
    file that has none of them.
    Raises LoadError, naming the file and the weights.
    """
    if path is None:
        return {name.removeprefix(_PREFIX): tensor for name, tensor in _read(os.fspath(module)).items()}
    tensors = _read(os.fspath(path))
    found = {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items() if name.startswith(_PREFIX)} or tensors
    weights, state = Weights.of(module), module.state_dict()
    for alias, name in weights.aliases.items():
        if name in found:
            found.setdefault(alias, found[name])
    unsaved = (set(weights.buffers) | set(weights.aliases)) - set(state)
    found = {name: tensor for name, tensor in found.items() if name not in unsaved}
    differing = [f"{name} {list(found[name].shape)} instead of {list(tensor.shape)}" for name, tensor in state.items()
                 if name in found and isinstance(tensor, torch.Tensor) and found[name].shape != tensor.shape]
    missing, others = sorted(set(state) - set(found)), sorted(set(found) - set(state))
    if state and not set(state) & set(found):
        raise LoadError(f"'{path}' has none of the weights of {type(module).__name__}: {shown(sorted(state))}. It has {shown(sorted(found))}.")
    found_wrong = {"another shape": differing, **({"missing": missing, "not in the module": others} if strict else {})}
    problems = [f"{what}: {shown(names)}" for what, names in found_wrong.items() if names]
    if problems:
        raise LoadError(f"The weights of '{path}' are not those of {type(module).__name__}: {'; '.join(problems)}.")
    module.load_state_dict(found, strict=strict)
    return module


def shown(names):
    """A few names, for a message."""
    return f"{', '.join(names[:5]) or 'none'}{' …' if len(names) > 5 else ''}"


def _read(path):
    return opened(path)[0]


def opened(path):
    """The tensors of a checkpoint or safetensors file by name, and its metadata. Raises LoadError."""
    if os.path.isdir(path):
        raise LoadError(f"'{path}' is a folder. {_advice(path)}")
    try:
        return safetensors.from_file(path)
    except safetensors.DamagedError as error:
        raise LoadError(f"'{path}' cannot be loaded: {error}.") from error
    except OSError as error:
        raise LoadError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, RuntimeError, MemoryError, OverflowError) as error:
        raise LoadError(f"'{path}' is neither a checkpoint of levin nor a safetensors file, or is damaged ({error}). Files of torch.save() "
                        "are loaded by torch.load().") from error


def _advice(folder):
    """What to give instead of a folder: of a run its newest checkpoint; one file of weights that are in several."""
    found = [path for place in (folder, os.path.join(folder, "checkpoints")) for path in glob.glob(os.path.join(glob.escape(place), "*.ckpt"))]
    checkpoints = [path for path in found if not zipfile.is_zipfile(path)]  # those are for Lightning
    if checkpoints:
        return f"Name its checkpoint: '{max(checkpoints, key=os.path.getmtime)}'."
    if os.path.exists(os.path.join(folder, "model.safetensors.index.json")) or os.path.exists(os.path.join(folder, "model.safetensors")):
        return f"Make one file of it: levin export {folder} --to safetensors"
    return "It has no checkpoints: name a file."
