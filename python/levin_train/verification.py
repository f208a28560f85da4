"""Compares a package with the module that it was made of, before it is given out."""

import math

import torch

from levin_train import reference, torch_patches
from levin_train.errors import ExportError
from levin_train.stand_ins import NUMBERS
from levin_train.steps import random_state


_SMALL = 16  # sizes below which the smallest is sought that a package takes
_TRIES = 4  # of the rows of a batch of one row, which may be such that the step goes another way for it


def tolerance(tensor, precision):
    """Relative and absolute: what another order of sums makes."""
    if precision != "32-true":
        return 2e-2, 2e-2
    return (1e-4, 1e-5) if tensor.dtype != torch.float64 else (1e-7, 1e-9)


def verify(package, graphs, sizes):
    """Raises ExportError when an output of an entry differs from the module's own, for any size of the batch, seed and weights.
    Gives the smallest size of each dimension that varies, by the entry's name: 1, or the smallest for which both agree."""
    smallest = {}
    for name, graph in graphs.items():
        loaded, layout = torch_patches.loaded(package, name), graph.step.layout
        agreed, differing = [], []
        for seed, batch in enumerate(layout.compared(sizes, graph.special_sizes)):
            try:
                agrees = _compare(loaded, graph, batch, seed)
            except ExportError as error:
                if not seed or not graph.special_sizes & set(layout.sizes(batch).items()):
                    raise
                differing.append((layout.sizes(batch), error))
                continue
            if agrees:
                agreed.append(layout.sizes(batch))
            elif layout.is_compared:
                raise ExportError(f"{name} could not be compared for the batch with the sizes {layout.sizes(batch)}: the module refuses it, or "
                                  "goes another way for it than for the batch at which it was recorded.")
        for course in graph.step.courses if agreed and len(graph.step.courses) > 1 else ():
            if not _compare(loaded, graph, layout.tensors, 1, course.numbers):
                turn = course.recorder.turns[-1]
                raise ExportError(f"{turn.where}: {turn.what}, and {name} could not be compared with {course.numbers}. {graph.step.refusal}")
        if not agreed:
            raise ExportError(f"{name} could not be compared: the module refuses batches of all sizes that were tried ({sizes}), or goes "
                              "another way for them than for the example. Give export() sizes=, or a batch that is usual in training. "
                              + graph.step.refusal)
        smallest[name] = {}
        for dimension in layout.sizes():
            known = min(found[dimension] for found in agreed)
            if layout.is_compared:  # of one or of none torch decides otherwise than of more, so that these must have been compared
                smallest[name][dimension] = min(known, 2)
            else:
                tries = range(_TRIES if _has_conditions(graph) else 1)
                smallest[name][dimension] = next((size for size in range(1, min(known, _SMALL)) if any(
                    _agree(loaded, graph, layout.resized({**agreed[0], dimension: size}, seed)) for seed in tries)), known)
        for found, error in differing:  # torch decides otherwise on a few small sizes, which the package refuses then
            if all(found[dimension] >= least for dimension, least in smallest[name].items()):
                raise error
    return smallest


def _has_conditions(graph):
    return any(entry["kind"] == "condition" for entry in graph.outputs)


def _agree(loaded, graph, tensors):
    try:
        return _compare(loaded, graph, tensors, 1)
    except ExportError:
        return False


def _moved(tensors, seed):
    """Weights that training has changed a little: what was computed of them before the step shows as a difference."""
    generator = torch.Generator().manual_seed(seed)
    moved = {}
    for name, tensor in tensors.items():
        factor = 1 + 0.02 * min(seed, 3) * torch.rand(tensor.shape, generator=generator)
        moved[name] = tensor.detach() * factor.to(tensor.dtype) if tensor.is_floating_point() else tensor.detach().clone()
    return moved


class _Trial:
    """One comparison: a batch, weights, numbers of the run and a seed."""

    def __init__(self, graph, tensors, seed, numbers):
        step = self.step = graph.step
        self.graph, self.tensors, self.seed = graph, tensors, seed
        self.numbers = numbers or {name: 3 * seed + position for position, name in enumerate(NUMBERS)}
        self.parameters, self.buffers = _moved(step.weights.parameters, seed), _moved(step.weights.buffers, seed)
        for name, parameter in self.parameters.items():
            parameter.requires_grad_(step.weights.parameters[name].requires_grad)
        self.shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in zip(step.layout.names, tensors))

    def outcome(self, parameters=None):
        """Of the module's own step, with other parameters if they are given."""
        with random_state(self.seed):
            return reference.outcome(self.step, dict(self.numbers), parameters or self.parameters, self.buffers, self.tensors)

    def goes_another_way(self):
        """Whether the conditions of the package do not hold for this batch."""
        outputs = self.graph.outputs[:len(self.graph.outputs) - self.graph.conditions_on_sizes]
        if not any(entry["kind"] == "condition" for entry in outputs):
            return False
        known = {course.turns: [decision.taken for decision in course.recorder.decisions] for course in self.step.courses}
        numbers = {name: torch.tensor(value) for name, value in self.numbers.items()}
        with random_state(self.seed):
            turns, taken = self.step.ways(numbers, self.parameters, self.buffers, self.tensors)
        return known.get(turns) != taken

    def package(self, loaded):
        """What the package gives for each of its outputs; None where it goes another way by how many rows values take, which compiled code may
        notice before it says so."""
        numbers = {name: torch.tensor(value) for name, value in self.numbers.items()}
        sources = {"parameter": self.parameters, "buffer": self.buffers, "number": numbers, "batch": dict(zip(self.step.layout.names, self.tensors))}
        inputs = [sources[entry["kind"]][entry["name"]].detach() for entry in self.graph.inputs]
        with random_state(self.seed):
            try:
                return loaded.loader.boxed_run([tensor.contiguous() for tensor in inputs])
            except RuntimeError as error:
                if self.step.conditions_on_rows and "Expected" in str(error):
                    return None
                raise ExportError(f"{self.step.name}: the compiled step fails for a batch that the module takes ({self.shapes}): {error}") from error

    def rounding(self, expected):
        """How far outputs move when weights are rounded otherwise, in their last digit: what another order of sums does to a deep network, in
        which it lets some activations pass that were cut off. As a share of their largest number, the most of all outputs; and for each, also
        where they are rounded as coarsely as sums in another order are: one activation near zero that passes then changes a gradient by its part."""
        furthest, each = 0.0, {}
        for trial, digit in enumerate((*[1.2e-7] * 5, *[2e-6] * 5)):
            generator = torch.Generator().manual_seed(trial)
            moved = {name: (parameter.detach() * (1 + digit * torch.randn(parameter.shape, generator=generator))).to(parameter.dtype)
                     .requires_grad_(parameter.requires_grad) if parameter.is_floating_point() else parameter
                     for name, parameter in self.parameters.items()}
            outcome = self.outcome(moved)
            for key, other in expected.items():
                one = outcome.get(key)
                if one is not None and one.is_floating_point() and one.shape == other.shape and one.numel() and other.abs().max() > 0:
                    off = float((one.double() - other.double()).abs().max())
                    each[key] = max(each.get(key, 0.0), off)
                    furthest = max(furthest, off / float(other.double().abs().max())) if digit < 1e-6 else furthest
        return min(furthest, 1e-2), each

    def differs(self, what, how):
        numbers = ", ".join(f"{name} = {value}" for name, value in self.numbers.items())
        raise ExportError(f"{self.step.where}: {self.step.name}: {what} of the compiled step {how} (batch: {self.shapes}). Both had the same weights, batch, "
                          f"seed and numbers of the run ({numbers}). What the step keeps outside of the module, random numbers that are not torch's or have a "
                          "seed of their own, and exceptions that it catches do this. The package is not written.")


def _compare(loaded, graph, tensors, seed, numbers=None):
    """Whether there was something to compare for this batch. `numbers`: of the run."""
    trial = _Trial(graph, tensors, seed, numbers)
    try:
        expected = trial.outcome()
    except Exception as error:  # the module itself refuses this batch
        graph.step.refusal = f"{type(error).__name__}: {error}"
        return False
    if trial.goes_another_way():
        return False
    found, given = {}, trial.package(loaded)
    if given is None:
        return False
    for entry, value in zip(graph.outputs, given):
        if entry["kind"] != "condition":
            found[_key(entry)] = value
        elif bool(value) != entry["taken"]:
            if any(entry is each for each in graph.step.conditions_on_rows):
                return False
            trial.differs(f"the condition at {entry['where']}", "differs from the module's")
    # What the package does not change has the values that went in.
    found |= {("buffer", name): tensor.detach() for tensors in (trial.buffers, trial.parameters) for name, tensor in tensors.items()
              if ("buffer", name) not in found and ("buffer", name) in expected}
    expected = {key: value for key, value in expected.items() if key[0] not in ("log", "weight", "metric") or key[1] not in graph.step.left_out}
    _compare_names(trial, expected, set(found))
    rounding = None
    for key, theirs in expected.items():
        ours = found[key]
        relative, absolute = tolerance(theirs, graph.step.precision)
        scale = float(theirs.abs().max()) if theirs.numel() and theirs.is_floating_point() else 0.0
        same_shape = theirs.shape == ours.shape
        if same_shape and torch.allclose(ours.to(theirs.dtype), theirs, relative, absolute * max(1.0, scale), equal_nan=True):
            continue
        difference = float((ours.double() - theirs.double()).abs().max()) if same_shape else math.inf
        if rounding is None:
            rounding, moved = trial.rounding(expected)
        allowed = max(10 * rounding, _of_long_sums(tensors) if seed > 0 else 0.0)
        if not difference <= allowed * scale and not _is_rounding_alone(key, difference, scale, expected, moved, rounding, is_made=seed > 0):
            values = f": {float(ours):.6g} in place of {float(theirs):.6g}" if same_shape and theirs.numel() == 1 else ""
            trial.differs(_named(key), f"differs from the module's by {f'{difference:.3g}' if same_shape else 'shape'}{values}")
    return True


def _is_rounding_alone(key, difference, scale, expected, moved, rounding, is_made):
    """Whether an output differs by no more than the module's own moves when weights have another last digit, or is a gradient that is 0 but for
    rounding, as that of a bias before a normalisation: sums of large terms that cancel. It then moves as far as it is large, or is that far
    below the largest gradient, and differs by a small share of that. In a batch that is made, and not the user's, all gradients may be 0 but
    for rounding, as behind a normalisation of two rows, and rounding may decide whether whole activations pass: they say nothing there."""
    far = moved.get(key, 0.0)
    if key[0] != "gradient" or difference <= 2 * far:
        return difference <= 2 * far
    largest = max((float(other.abs().max()) for (kind, _, *_), other in expected.items() if kind == "gradient" and other.numel()), default=0.0)
    if difference <= min(30 * far, 1e-6 * largest) or is_made and rounding >= 1e-3 and difference <= 5e-3 * largest:
        return True
    return far >= 0.1 * scale and difference <= (10 * far if is_made else min(10 * far, 1e-3 * largest))


def _of_long_sums(tensors):
    """How far results may be off for a large batch that is made, as a share: compiled loops add one number after another, torch in a tree."""
    return 1e-2 if max((tensor.numel() for tensor in tensors), default=0) > 2**18 else 0.0


def _compare_names(trial, expected, found):
    """Refuses a package that gives other gradients, logs or outputs than the module."""
    optional = {key for key in found - set(expected) if key[0] in ("log", "weight", "metric") and key[1] in trial.step.optional}
    for key in sorted(set(expected) ^ (found - optional), key=str):
        if key[0] == "gradient":
            ours, theirs = ("none", "one") if key in expected else ("a gradient", "none")
            raise ExportError(f"{trial.step.where}: {trial.step.name}: {key[1]} gets {ours} from the compiled step and {theirs} by backward() in "
                              f"PyTorch (batch: {trial.shapes}). A torch.autograd.Function that calls backward() itself, a hook on a gradient "
                              "or requires_grad_() in the step does this. The package is not written.")
        what = "does not have it" if key in expected else "has it and the module does not"
        raise ExportError(f"{trial.step.where}: {trial.step.name} gives or logs {_named(key)} for another batch ({trial.shapes}), and the package "
                          f"{what}. A package gives the same ones always.")


def _key(entry):
    kind, name = entry["kind"], entry.get("name")
    return (kind, name, entry["input"]) if kind == "metric" else (kind, name)


def _named(key):
    return f"{key[0]} {key[1] or ''}".strip()
