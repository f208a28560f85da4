"""levin.export(): from a module and a batch to a package, verified before it is given out."""

import dataclasses
import json
import os
import platform
import tempfile

import torch
import torch._inductor.package
from torch.export.pt2_archive._package import PT2ArchiveWriter

from levin import configuration, safetensors, verification
from levin.batches import layout_of
from levin.compiling import compiled, record, traced_sizes
from levin.errors import ExportError
from levin.steps import PRECISIONS, STEPS, Step, Weights, steps_of

FORMAT = 1


@dataclasses.dataclass
class Export:
    """What export() has written."""

    package: str
    config: str | None
    entries: list[str]
    notes: list[str]


def export(module, batch, path, *, loss=None, batches=(), dynamic=None, precision="32-true", without=(), sizes=(2, 7, 33), config=True):
    """Compiles the steps of a module, and writes them with its weights as the package `path`, and the YAML of a run beside it.

    module: a LightningModule as it is, or an nn.Module with `loss`, a function of its output and the target.
    batch: one as a loader gives it. Its first dimension varies, and those in which other examples, `batches`, differ from it, and
        those that `dynamic` names, as {"tokens": {1: "time"}}.
    precision: "32-true", "bf16-mixed" or "16-mixed": under which autocast the steps are compiled.
    without: steps and hooks of the module that are left out.
    sizes: of the batch, with which the package is compared with the module. A size that the module itself refuses is left out.
    config: whether to write the YAML.

    Raises ExportError with the line of the user's code that cannot be exported, or with what differs from the module.
    """
    path = os.fspath(path)
    if not path.endswith(".pt2"):
        raise ExportError(f'The package is to be named "{path}". Its name ends in .pt2.')
    if precision not in PRECISIONS:
        raise ExportError(f'precision is "{precision}". It is one of {", ".join(PRECISIONS)}.')
    functions = steps_of(module, loss, without)
    found = configuration.sections(module) if config else {}
    layout = layout_of(batch, batches, dynamic)
    notes = [f'"{name}" of the batch is no tensor: {value!r} is fixed in the package' for name, value in layout.constants.items()]
    graphs = {}
    for name in STEPS:
        if name in functions:
            step = Step(name, module, functions[name], layout, precision)
            graphs[name] = record(step, layout.resized(traced_sizes(step)))
    weights = Weights.of(module)
    description = describe(module, weights, layout, precision, graphs)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        written = os.path.join(folder, "package.pt2")
        files = {name: compiled(graph) for name, graph in graphs.items()}
        with PT2ArchiveWriter(written) as archive:
            for name, entry_files in files.items():
                for file in entry_files:
                    archive.write_file(f"data/aotinductor/{name}/{os.path.basename(file)}", file)
            archive.write_string("extra/levin.json", json.dumps(description, indent=1))
            archive.write_bytes("data/levin/weights.safetensors", safetensors.to_bytes(stored_tensors(weights)))
        verification.verify(written, graphs, sizes, list(batches))
        os.replace(written, path)
    yaml = configuration.write(path, found) if config else None
    return Export(path, yaml, list(graphs), notes)


def describe(module, weights, layout, precision, graphs):
    """levin.json of the package: all that is known of it without loading code."""
    return {
        "format": FORMAT,
        "module": type(module).__name__,
        "torch": torch.__version__.split("+")[0],
        "system": platform.system().lower(),
        "machine": platform.machine(),
        "processor_features": processor_features(),
        "precision": precision,
        "hyper_parameters": configuration.hyper_parameters(module),
        "weights": [{"name": name, "kind": kind, "trained": tensor.requires_grad, "saved": name in weights.saved,
                     "aliases": [alias for alias, of in weights.aliases.items() if of == name]}
                    for kind, tensors in (("parameter", weights.parameters), ("buffer", weights.buffers))
                    for name, tensor in tensors.items()],
        "entries": {name: {"inputs": graph.inputs, "outputs": graph.outputs} for name, graph in graphs.items()},
    }


def stored_tensors(weights):
    return {name: tensor.detach() for tensors in (weights.parameters, weights.buffers) for name, tensor in tensors.items()}


def processor_features():
    """What compiled code may use of this processor, as /proc/cpuinfo names it."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="ignore") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), ":").split(":")[1].split()
    except OSError:
        return []
    kept = ("sse4", "avx", "fma", "f16c", "bmi", "amx", "asimd", "sve", "movbe", "gfni", "vaes", "vpclmul")
    return sorted(flag for flag in flags if flag.startswith(kept))
