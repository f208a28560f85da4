"""What `levin export --to program` and `--to onnx` do: from a checkpoint of a package to a file that runs without levin.

    python -m levin_train.programs best.ckpt --to onnx --output digits.onnx

A package holds the graph of its predict_step as Python code of aten operations (PROGRAM). It is traced again with the checkpoint's
weights in it, and with what a TableDataModule has learnt, so that the file takes the data's own values.
"""

import argparse
import json
import os
import re
import sys
import warnings
import zipfile

import torch
from torch.export.pt2_archive._package import PT2ArchiveWriter

from levin_train import onnx_files, preparation, safetensors
from levin_train.compiling import movable, shims_of
from levin_train.errors import ExportError, LoadError
from levin_train.loading import opened, shown

PROGRAM = "data/levin/predict_step.py"
CONSTANTS = "data/levin/predict_step.safetensors"
# What torch.fx writes into code without importing it.
_GLOBALS = {"torch": "import torch", "inf": "from math import inf", "nan": "from math import nan", "device": "from torch import device",
            "NoneType": "NoneType = type(None)", "fx_pytree": "from torch.fx import _pytree as fx_pytree",
            "pytree": "from torch.utils import _pytree as pytree"}


def stored(graph):
    """What a package holds of a graph: its code, and the tensors in it. Nothing where it is more than a function of tensors."""
    module = graph.module
    code = module.graph.python_code("self")
    imports = [f"from {value.__module__} import {value.__qualname__} as {name}" for name, value in code.globals.items()
               if name not in _GLOBALS and hasattr(value, "__qualname__")]
    constants = {node.target: getattr(module, node.target, None) for node in module.graph.nodes if node.op == "get_attr"}
    if not all(isinstance(tensor, torch.Tensor) and tensor.dtype in safetensors.NAMES for tensor in constants.values()):
        return {}
    text = "\n".join([*_GLOBALS.values(), *imports, code.src])
    return {PROGRAM: text.encode(), CONSTANTS: safetensors.to_bytes(constants)}


class Program(torch.nn.Module):
    """The predict_step of a package with these weights. Takes the tensors of a batch, and gives a dictionary."""

    def __init__(self, code, constants, entry, precision, weights, prepare):
        super().__init__()
        self.precision = precision
        names = {}
        exec(compile(code, "predict_step of the package", "exec"), names)  # noqa: S102 - a package is code: docs/security.md
        self._function = names["forward"]
        self._entry = entry
        self._prepare = prepare
        for name, tensor in constants.items():
            self.register_buffer(name, tensor)
        for index, each in enumerate(entry["inputs"]):
            if each["kind"] in ("parameter", "buffer"):
                self.register_buffer(f"input_{index}", weights[each["name"]])

    def forward(self, *batch):
        values, given = iter(self._prepare(*batch)), []
        for index, each in enumerate(self._entry["inputs"]):
            given.append(next(values) if each["kind"] == "batch" else torch.tensor(0) if each["kind"] == "number" else getattr(self, f"input_{index}"))
        outputs = self._function(self, *given)
        return {described["name"]: output for described, output in zip(self._entry["outputs"], outputs) if described["kind"] == "extra"}


def program_of(file, package=None):
    """The Program of a checkpoint or a package, an example of each of its inputs, and notes for its user."""
    tensors, manifest = _opened(file)
    path = file if manifest is None else package or manifest.get("hyper_parameters", {}).get("package")
    if manifest is not None:
        _check_class(file, manifest)
    description, code, constants, weights = _package(path)
    notes = []
    if manifest is not None:
        weights = _trained(file, tensors, path, description, weights)
        precision = manifest.get("precision", description["precision"])
        if precision != description["precision"]:
            notes.append(f"The package computes in {description['precision']} and the run did in {precision}: the numbers are not quite those of "
                         "the run.")
    entry = description["entries"]["predict_step"]
    prepare, examples, more = preparation.of(manifest or {}, [each for each in entry["inputs"] if each["kind"] == "batch"])
    return Program(code, constants, entry, description["precision"], weights, prepare).eval(), examples, notes + more


def _check_class(file, manifest):
    name = manifest.get("module_class", "module")
    if name == "ExportedModule":
        return
    if "package" in manifest.get("hyper_parameters", {}):
        raise LoadError(f"'{file}' is of a {name}, a class in C++ over a package: its own steps are no part of the package. Use "
                        "levin::Predictor in a program that has the class.")
    raise LoadError(f"'{file}' is of a {name}, a class in C++, whose code is in its own program. Its weights: levin export --to state_dict.")


def _trained(file, tensors, path, description, untrained):
    """The package's weights with the checkpoint's numbers. Raises LoadError where these are not of the same names and shapes."""
    found = {name.removeprefix("state_dict."): tensor for name, tensor in tensors.items() if name.startswith("state_dict.")}
    weights, known = {}, set()
    for each in description["weights"]:
        names = [each["name"], *each["aliases"]]
        known.update(names)
        weights.update({each["name"]: found[name] for name in names[::-1] if name in found})
    shapes = [f"{name} is {list(weights[name].shape)} in the checkpoint and {list(tensor.shape)} in the package"
              for name, tensor in untrained.items() if name in weights and weights[name].shape != tensor.shape]
    found_wrong = {"only in the checkpoint": sorted(set(found) - known), "only in the package": sorted(set(untrained) - set(weights)), "": shapes}
    problems = [f"{what}{': ' if what else ''}{shown(names)}" for what, names in found_wrong.items() if names]
    if problems:
        raise LoadError(f"The weights of '{file}' are not those of the package '{path}' (of {description['module']}): {'; '.join(problems)}. "
                        "Give the package of the run: --package.")
    return weights


def _opened(file):
    """The tensors and the manifest of a checkpoint; of a package nothing."""
    if zipfile.is_zipfile(file):
        return {}, None
    tensors, metadata = opened(os.fspath(file))
    return tensors, json.loads(metadata.get("levin_manifest", "{}"), object_hook=_number_or_map)


def _number_or_map(found):
    return float(found["$float"]) if set(found) == {"$float"} else found  # inf and nan, which JSON does not have


def _package(path):
    try:
        with zipfile.ZipFile(path) as archive:
            files = {name.split("/", 1)[1]: name for name in archive.namelist()}
            description = json.loads(archive.read(files["extra/levin.json"]))
            if PROGRAM not in files:
                raise LoadError(f"'{path}' has no predict_step, one that is no function of tensors, or was made by an earlier levin: export the "
                                "module again, with forward() or predict_step().")
            weights = safetensors.from_bytes(archive.read(files["data/levin/weights.safetensors"]))
            constants = safetensors.from_bytes(archive.read(files[CONSTANTS]))
            return description, archive.read(files[PROGRAM]).decode(), constants, weights
    except OSError as error:
        raise LoadError(f"The package '{path}' cannot be read ({error.strerror}). Say where it is: --package.") from error
    except (zipfile.BadZipFile, KeyError) as error:
        raise LoadError(f"'{path}' is no package of levin_train.export(): {error}") from error


def _exported(program, examples):
    dynamic = tuple({axis: torch.export.Dim.DYNAMIC for axis, name in enumerate(each.dimensions) if isinstance(name, str)}
                    for each in examples)
    with torch.no_grad():
        return torch.export.export(program, tuple(each.tensor for each in examples), dynamic_shapes=(dynamic,))


def write_program(program, examples, output):
    """A .pt2 that torch::inductor::AOTIModelPackageLoader runs: the tensors of a batch in, those of predict_step out."""
    graph = _exported(program, examples).module(check_guards=False)
    options = {"aot_inductor.package": True, "aot_inductor.custom_ops_to_c_shims": shims_of(graph)}
    files = torch._inductor.aot_compile(graph, tuple(each.tensor for each in examples), options=options)
    with PT2ArchiveWriter(output) as archive:
        for file in movable(files):
            archive.write_file(f"data/aotinductor/model/{os.path.basename(file)}", file)


def write_onnx(program, examples, output):
    """ONNX, whose inputs and outputs have the names of the package's."""
    if program.precision != "32-true":
        raise ExportError(f"The package computes in {program.precision}, whose types torch mixes where ONNX must not. Export the module once more "
                          'with precision="32-true", and give that package with --package: its weights have the same names.')
    outputs = [each["name"] for each in program._entry["outputs"] if each["kind"] == "extra"]
    onnx_files.write(_exported(program, examples), examples, outputs, output)


WRITERS = {"program": (write_program, ".pt2"), "onnx": (write_onnx, ".onnx")}


def _output(path):
    """The file to write, in a folder that exists."""
    if os.path.isdir(path):
        raise ExportError(f"--output: '{path}' is a folder. Name a file in it.")
    path = os.path.abspath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def _cause(error):
    """The first line of what was raised first, without the colours of a terminal. What torch raises over it tells of its own steps."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines()
    return f"{lines[0] if lines else 'without a reason'} ({type(error).__name__})"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="levin export", description="Write the predict_step of an exported module, with trained weights.")
    parser.add_argument("file", help="a checkpoint of a run of ExportedModule, or a package")
    parser.add_argument("--to", choices=WRITERS, required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--package", help="where the package is, if not where it was when the run began")
    options = parser.parse_args(arguments)
    try:
        output = _output(options.output)
        program, examples, notes = program_of(options.file, options.package)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            WRITERS[options.to][0](program, examples, output)
    except Exception as error:  # torch's exporters raise what they like
        own = isinstance(error, (LoadError, ExportError, OSError))
        text = str(error) if own else f"torch cannot make {options.to} of it: {_cause(error)}"
        print(f"levin: error: {text}", file=sys.stderr)
        return 1
    inputs = ", ".join(f"{each.name} {each.tensor.dtype} {each.dimensions}" for each in examples)
    print("\n".join([f"{options.output} written. It takes {inputs}.", *(f"note: {note}" for note in notes)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
