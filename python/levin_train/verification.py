"""Compares a package with the module that it was made of, before it is given out."""

import math

import torch
import torch._inductor.package

from levin_train.errors import ExportError
from levin_train.recording import NUMBERS
from levin_train.steps import random_state


def tolerance(tensor, precision):
    """Relative and absolute: what another order of sums makes."""
    if precision != "32-true":
        return 2e-2, 2e-2
    return (1e-4, 1e-5) if tensor.dtype != torch.float64 else (1e-7, 1e-9)


def verify(package, graphs, sizes, batches):
    """Raises ExportError when an output of an entry differs from the module's own, for any size of the batch, seed and weights.
    Gives the smallest size of each dimension that varies, by the entry's name: 1, or the smallest for which both agree."""
    smallest = {}
    for name, graph in graphs.items():
        loaded, layout = torch._inductor.package.load_package(package, name), graph.step.layout
        agreed = []
        special = [layout.resized({**layout.sizes(), dimension: size}, size) for dimension, size in sorted(graph.special_sizes)]
        for seed, batch in enumerate([*_batches(layout, sizes, batches), *special]):
            if _compare(loaded, graph, batch, seed):
                agreed.append(layout.sizes(batch))
        if not agreed:
            raise ExportError(f"{name} could not be compared: the module refuses batches of all sizes that were tried ({sizes}), or goes "
                              "another way for them than for the example. Give export() sizes=, or a batch that is usual in training.")
        smallest[name] = {}
        for dimension in layout.sizes():
            one = layout.resized({**agreed[0], dimension: 1}, len(agreed))
            smallest[name][dimension] = 1 if _agree(loaded, graph, one) else min(found[dimension] for found in agreed)
    return smallest


def _agree(loaded, graph, tensors):
    try:
        return _compare(loaded, graph, tensors, 1)
    except ExportError:
        return False


def _batches(layout, sizes, others):
    yield layout.tensors
    for other in others:
        yield [leaf for leaf in torch.utils._pytree.tree_leaves(other) if isinstance(leaf, torch.Tensor)]
    example = layout.sizes()
    for seed, size in enumerate(sizes if example else ()):
        yield layout.resized({name: size if name == "batch" else max(2, old - seed) for name, old in example.items()}, seed + 1)


def _moved(tensors, seed):
    """Weights that training has changed a little: what was computed of them before the step shows as a difference."""
    generator = torch.Generator().manual_seed(seed)
    moved = {}
    for name, tensor in tensors.items():
        factor = 1 + 0.02 * min(seed, 3) * torch.rand(tensor.shape, generator=generator)
        moved[name] = tensor.detach() * factor.to(tensor.dtype) if tensor.is_floating_point() else tensor.detach().clone()
    return moved


def _compare(loaded, graph, tensors, seed):
    """Whether there was something to compare for this batch."""
    step = graph.step
    numbers = {name: torch.tensor(3 * seed + position) for position, name in enumerate(NUMBERS)}
    parameters, buffers = _moved(step.weights.parameters, seed), _moved(step.weights.buffers, seed)
    for name, parameter in parameters.items():
        parameter.requires_grad_(step.weights.parameters[name].requires_grad)
    recorder = step.recorder(None, numbers)
    with random_state(seed):
        try:
            expected, described = step.run(recorder, parameters, buffers, tensors)
        except ExportError:
            raise
        except Exception:
            return False  # the module itself refuses this batch
        after = torch.random.get_rng_state()
    if [entry.get("taken") for entry in described] != [entry.get("taken") for entry in graph.outputs]:
        return False  # the module goes another way for this batch: the package's conditions say so
    shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in zip(step.layout.names, tensors))
    if [_what(entry) for entry in described] != [_what(entry) for entry in graph.outputs]:
        raise ExportError(f"{step.where}: {step.name} gives or logs other things for another batch ({shapes}). A package gives the same "
                          "ones always.")
    sources = {"parameter": parameters, "buffer": buffers, "number": numbers, "batch": dict(zip(step.layout.names, tensors))}
    inputs = [sources[entry["kind"]][entry["name"]].detach() for entry in graph.inputs]
    with random_state(seed):
        try:
            found = loaded.loader.boxed_run([tensor.contiguous() for tensor in inputs])
        except RuntimeError as error:
            raise ExportError(f"{step.name}: the compiled step fails for a batch that the module takes ({shapes}): {error}") from error
        same_random = torch.equal(after, torch.random.get_rng_state())
    rounding = None
    for entry, theirs, ours in zip(described, expected, found):
        relative, absolute = tolerance(theirs, step.precision)
        scale = float(theirs.detach().abs().max()) if theirs.numel() and theirs.is_floating_point() else 0.0
        same_shape = theirs.shape == ours.shape
        if same_shape and torch.allclose(ours.to(theirs.dtype), theirs, relative, absolute * max(1.0, scale), equal_nan=True):
            continue
        difference = float((ours.double() - theirs.double()).abs().max()) if same_shape else math.inf
        if rounding is None:
            rounding = _rounding(step, numbers, parameters, buffers, tensors, seed, expected)
        if not difference <= 10 * rounding * scale:
            distance = f"{difference:.3g}" if same_shape else "shape"
            raise ExportError(f"{step.where}: {step.name}: {entry['kind']} {entry.get('name', '')} of the compiled step differs from the module's "
                              f"by {distance} (batch: {shapes}; random numbers {'alike' if same_random else 'differ'}). "
                              "The package is not written.")
    return True


def _rounding(step, numbers, parameters, buffers, tensors, seed, expected):
    """How far outputs move, as a share of their largest number, when weights are rounded otherwise, in their last digit: what another
    order of sums does to a deep network, in which it lets some activations pass that were cut off."""
    furthest = 0.0
    for trial in range(5):
        generator = torch.Generator().manual_seed(trial)
        moved = {name: (parameter.detach() * (1 + 1.2e-7 * torch.randn(parameter.shape, generator=generator))).to(parameter.dtype)
                 .requires_grad_(parameter.requires_grad) if parameter.is_floating_point() else parameter
                 for name, parameter in parameters.items()}
        with random_state(seed):
            outputs, _ = step.run(step.recorder(None, numbers), moved, buffers, tensors)
        for one, other in zip(outputs, expected):
            if one.is_floating_point() and one.shape == other.shape and one.numel() and other.abs().max() > 0:
                furthest = max(furthest, float((one.double() - other.double()).abs().max() / other.double().abs().max()))
    return min(furthest, 1e-2)


def _what(entry):
    return entry["kind"], entry.get("name")
