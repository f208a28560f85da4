"""levin_train.export() and levin_train.export_function(): from a module and a batch to a package, verified before it is given out."""

import dataclasses
import json
import os
import platform
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, get_args

import torch
from torch.export.pt2_archive._package import PT2ArchiveWriter

from levin_train import configuration, processors, programs, safetensors, torch_patches, verification
from levin_train.batches import layout_of
from levin_train.compiling import compiled, record
from levin_train.errors import ExportError, StepFailure, is_installed
from levin_train.hooks import run_before_export
from levin_train.hyper_parameters import hyper_parameters
from levin_train.parallel import Progress, compiled_entries
from levin_train.steps import PRECISIONS, STEPS, Step, Weights
from levin_train.supported import check_given, check_optimization, check_weights, check_without, function_step, steps_of
from levin_train.watching import preserved

torch_patches.check_version()

FORMAT = 1
_OWN = "{} is left out, as forward() does not take the batch: write it, or pass the tensors of the batch that forward() takes"


@dataclasses.dataclass
class Export:
    """What export() has written."""

    package: str
    config: str | None
    entries: list[str]
    notes: list[str]  # what is fixed in the package or left out of it, and on which processors alone it runs; they are warnings too
    runs_on: str  # the processors on which it runs, in words


Precision = Literal["32-true", "bf16-mixed", "16-mixed"]
Processor = Literal["native", "x86-64-v3", "x86-64-v2"]
Threads = int | Literal["run"] | None
Dynamic = Mapping[str, Mapping[int, str]] | None


def export(module: torch.nn.Module, batch: Any = None, path: str | os.PathLike[str] | None = None, *, loss: Callable[..., torch.Tensor] | None = None,
           batches: Iterable[Any] = (), dynamic: Dynamic = None, precision: Precision = "32-true", trainer: Mapping[str, Any] | None = None,
           without: Collection[str] = (), sizes: Collection[int] = (2, 7, 33), config: bool = True, processor: Processor = "native",
           threads: Threads = None) -> Export:
    """Compiles the steps of a module, and writes them with its weights as the package `path`, and the YAML of a run next to it.

    module: a LightningModule as it is, or an nn.Module with `loss`, a function of its output and the target.
    batch: one as a loader gives it. Its first dimension varies, and those that `dynamic` names, as {"tokens": {1: "time"}}; levin makes
        batches of other sizes of it.
    batches: several of the loader, with `batch` or instead of it: what differs between them varies, and levin makes no others. For
        unions of graphs, padded or packed texts: whatever is not as many rows of a fixed shape.
    precision: "32-true", "bf16-mixed" or "16-mixed": under which autocast the steps are compiled. The YAML gets it too.
    trainer: values of self.trainer that the module reads, as {"max_epochs": 20}. They are fixed in the package, and the YAML gets those that
        are options of the Trainer.
    without: steps and hooks of the module that are left out.
    sizes: of the batch, with which the package is compared with the module. A size that the module itself refuses is left out.
    config: whether to write the YAML.
    processor: "native", as this machine's, for what the processor alone that exports has; "x86-64-v3" for a package that all with AVX2 run,
        "x86-64-v2" for older ones too.
    threads: "run": the loops between matrix products and convolutions run on as many threads as the run has; a number: on so many;
        None: 1 for small tensors, "run" for large ones.

    Raises ExportError with the line of the user's code that cannot be exported, or with what differs from the module.
    """
    check_given(module, batch, path)
    path = _checked_path(path, precision, processor, threads)
    module = getattr(module, "_orig_mod", module)  # of torch.compile()
    trainer = dict(trainer or {})
    check_without(without)
    if loss is None:
        run_before_export(module, configuration.Training(module, trainer), without)
    check_weights(module)
    examples = _examples(batch, batches)
    functions, optional, notes = steps_of(module, loss, without, examples[0], trainer)
    found = configuration.sections(module, trainer, notes) if config and loss is None else {}
    if found:  # configure_optimizers() may have changed the module
        check_weights(module)
        check_optimization(module)
    layout = layout_of(*examples, dynamic)
    steps = [Step(name, module, functions[name], layout, precision, trainer=trainer, without=without) for name in STEPS if name in functions]
    if "training_step" in functions and not module.training:
        notes.append("the module is in evaluation mode, and so is the training_step of the package: call train() before the export, or mean it")
    done = _write_package(module, steps, optional, path, (processor, threads), sizes, notes)
    done.config = configuration.write(path, found, precision, trainer, done.runs_on) if config else None
    return done


def export_function(function: Callable[..., Any], inputs: Mapping[str, Any], path: str | os.PathLike[str], *, batches: Iterable[Any] = (),
                    dynamic: Dynamic = None, precision: Precision = "32-true", sizes: Collection[int] = (2, 7, 33), processor: Processor = "native",
                    threads: Threads = None) -> Export:
    """Compiles a function of tensors, or a module in evaluation mode with its weights, as the package `path`, which
    levin::CompiledFunction runs in C++. It computes no gradients.

    inputs: example tensors by name, as {"image": images}. They are given by name where the function has arguments of these names,
        else one after another. What it returns has the names of its dictionary, "0", "1" and so on for a tuple, or "output".
    The other options are those of export().
    """
    path = _checked_path(path, precision, processor, threads)
    module = function if isinstance(function, torch.nn.Module) else torch.nn.Module()
    check_weights(module)
    step = function_step(function, module, layout_of(dict(inputs), list(batches), dynamic), precision)
    return _write_package(module, [step], (), path, (processor, threads), sizes, [])


def _examples(batch, batches):
    """The first example of a batch, and the others."""
    examples = [*([] if batch is None else [batch]), *batches]
    if not examples:
        raise ExportError("export() needs a batch, as next(iter(loader)) gives it, or several: batches=[…].")
    return examples[0], examples[1:]


def _checked_path(path, precision, processor, threads):
    path = os.fspath(path)
    for what, value, known in (("precision", precision, PRECISIONS), ("processor", processor, get_args(Processor))):
        if value not in known:
            raise ExportError(f'{what} is "{value}". It is one of {", ".join(known)}.')
    if threads not in (None, "run") and not (isinstance(threads, int) and threads > 0):
        raise ExportError(f'threads is {threads!r}. It is "run", a number, or None.')
    if processor != "native" and platform.machine() != "x86_64":
        raise ExportError(f'processor is "{processor}", and this machine is {platform.machine()}. Say "native".')
    if not path.endswith(".pt2"):
        raise ExportError(f'The package is to be named "{path}". Its name ends in .pt2.')
    return path


def _write_package(module, steps, optional, path, target, sizes, notes):
    notes += steps[0].layout.notes
    kept, left_out = hyper_parameters(module)
    notes += left_out
    with preserved(module), Progress() as progress:
        return _write_verified(module, steps, optional, path, target, sizes, notes, kept, progress)


def _write_verified(module, steps, optional, path, target, sizes, notes, kept, progress):
    graphs = {}
    for step in steps:
        progress.say(f"{step.name}: recording ({len(graphs) + 1} of {len(steps)})")
        try:
            graphs[step.name] = record(step)
        except Exception as error:  # of the module's own, where it is called with what it does not take
            reason = _left_out(step, error, optional)
            if reason is None:
                raise
            notes.append(f"{step.name} is left out, as {reason}: {error}" if reason != _OWN else _OWN.format(step.name))
        else:
            notes += [note for note in step.notes if note not in notes]
    program = programs.stored(graphs["predict_step"]) if "predict_step" in graphs else {}
    files = compiled_entries(graphs, lambda graph: _compiled(graph, target), progress)
    weights = Weights.of(module)
    description = describe(module, weights, steps[0].precision, target[0], graphs, kept)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        written = os.path.join(folder, "package.pt2")
        _write_archive(written, files, description, weights, program)
        progress.say(f"{', '.join(graphs)}: comparing with the module")
        for name, smallest in verification.verify(written, graphs, sizes).items():
            description["entries"][name].update(smallest_batch=smallest.pop("batch", 1), smallest_sizes=smallest)
        _write_archive(written, files, description, weights, program)
        os.replace(written, path)
    notes += [note for graph in graphs.values() for note in graph.notes if note not in notes]
    features = description["processor_features"]
    runs_on = processors.runs_on(target[0], features)
    if more := processors.advice(target[0], features):
        notes.append(f"the package is for this machine's processor: {runs_on}. {more}")
    for note in notes:
        warnings.warn(f"levin: {note}", stacklevel=4)
    return Export(path, None, list(graphs), notes, runs_on)


def _compiled(graph, target):
    try:
        return compiled(graph, *target)
    except ExportError as error:
        _advise(graph.step, error)
        raise


def _advise(step, error):
    """Raises the refusal of a step of evaluation with more to say: it may be left out."""
    if step.name in ("validation_step", "test_step", "predict_step"):
        raise ExportError(f'{error} Or leave it out of the package: without=["{step.name}"].') from error


def _left_out(step, error, optional):
    """Why a step is left out that cannot be recorded, or None. Those of evaluation alone are left out where the user says so."""
    if step.name in optional:
        return _OWN
    if step.name == "predict_step" and isinstance(error, StepFailure):
        return "it does not take the batch of training"
    if step.name == "predict_step" and isinstance(error, ExportError) and is_installed(step.source):
        return "a package of steps cannot have that of the library"
    if isinstance(error, ExportError):
        _advise(step, error)
    return None


def _write_archive(path, files, description, weights, program):
    with PT2ArchiveWriter(path) as archive:
        for name, entry_files in files.items():
            for file in entry_files:
                archive.write_file(f"data/aotinductor/{name}/{os.path.basename(file)}", file)
        archive.write_string("extra/levin.json", json.dumps(description, indent=1, allow_nan=False))
        for name, content in program.items():
            archive.write_bytes(name, content)
        archive.write_bytes("data/levin/weights.safetensors", safetensors.to_bytes(stored_tensors(weights)))


def describe(module, weights, precision, processor, graphs, kept):
    """levin.json of the package: all that is known of it without loading code."""
    return {
        "format": FORMAT,
        "module": type(module).__name__,
        "torch": torch.__version__.split("+")[0],
        "system": platform.system().lower(),
        "machine": platform.machine(),
        "processor": processor,
        "processor_features": processors.features_of(processor),
        "precision": precision,
        "hyper_parameters": kept,
        "weights": [{"name": name, "kind": kind, "trained": tensor.requires_grad, "saved": name in weights.saved,
                     "aliases": [alias for alias, of in weights.aliases.items() if of == name]}
                    for kind, tensors in (("parameter", weights.parameters), ("buffer", weights.buffers))
                    for name, tensor in tensors.items()],
        "entries": {name: {"inputs": graph.inputs, "outputs": graph.outputs} for name, graph in graphs.items()},
    }


def stored_tensors(weights):
    return {name: tensor.detach() for tensors in (weights.parameters, weights.buffers) for name, tensor in tensors.items()}
