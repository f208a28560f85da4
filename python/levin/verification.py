"""Compares a package with the module that it was made of, before it is given out."""

import torch
import torch._inductor.package

from levin.errors import ExportError
from levin.recording import NUMBERS
from levin.steps import random_state


def tolerance(tensor, precision):
    """Relative and absolute: what another order of sums makes."""
    if precision != "32-true":
        return 2e-2, 2e-2
    return (1e-4, 1e-5) if tensor.dtype != torch.float64 else (1e-7, 1e-9)


def verify(package, graphs, sizes, batches):
    """Raises ExportError when an output of an entry differs from the module's own, for any size of the batch and seed."""
    for name, graph in graphs.items():
        loaded = torch._inductor.package.load_package(package, name)
        compared = 0
        for seed, batch in enumerate(_batches(graph.step, sizes, batches)):
            compared += _compare(loaded, graph, batch, seed)
        if compared == 0:
            raise ExportError(f"{name} could not be run with a batch of any size. Give export() a batch that the module takes.")


def _batches(step, sizes, others):
    layout = step.layout
    yield layout.tensors
    for other in others:
        leaves = torch.utils._pytree.tree_leaves(other)
        yield [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    example = layout.sizes()
    for seed, size in enumerate(sizes):
        if "batch" in example:
            scaled = {name: size if name == "batch" else max(2, old - seed) for name, old in example.items()}
            yield layout.resized(scaled, seed + 1)


def _compare(loaded, graph, tensors, seed):
    step = graph.step
    numbers = {name: torch.tensor(3 * seed + position) for position, name in enumerate(NUMBERS)}
    parameters = {name: parameter.detach().clone().requires_grad_(parameter.requires_grad)
                  for name, parameter in step.weights.parameters.items()}
    recorder = step.recorder(tensors, None, numbers)
    with random_state(seed):
        try:
            expected, described = step.run(recorder, parameters, step.weights.buffers, tensors)
        except ExportError:
            raise
        except Exception:
            return 0  # the module itself refuses this batch
        after = torch.random.get_rng_state()
    if [_what(entry) for entry in described] != [_what(entry) for entry in graph.outputs]:
        return 0  # the module goes another way for this batch: the package's conditions say so
    sources = {"parameter": parameters, "buffer": step.weights.buffers, "number": numbers,
               "batch": dict(zip(step.layout.names, tensors))}
    inputs = [sources[entry["kind"]][entry["name"]].detach() for entry in graph.inputs]
    with random_state(seed):
        found = loaded.loader.boxed_run([tensor.contiguous() for tensor in inputs])
        same_random = torch.equal(after, torch.random.get_rng_state())
    for entry, theirs, ours in zip(described, expected, found):
        relative, absolute = tolerance(theirs, step._precision)
        scale = float(theirs.detach().abs().max()) if theirs.numel() and theirs.is_floating_point() else 0.0
        if theirs.shape != ours.shape or not torch.allclose(ours.to(theirs.dtype), theirs, relative, absolute * max(1.0, scale), equal_nan=True):
            sizes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in zip(step.layout.names, tensors))
            difference = "shape" if theirs.shape != ours.shape else f"{float((ours.double() - theirs.double()).abs().max()):.3g}"
            raise ExportError(f"{step.name}: {entry['kind']} {entry.get('name', '')} of the compiled step differs from the module's by "
                              f"{difference} (batch: {sizes}; random numbers {'alike' if same_random else 'differ'}). "
                              "The package is not written.")
    return 1


def _what(entry):
    return entry["kind"], entry.get("name"), entry.get("taken")
