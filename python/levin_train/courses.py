"""Courses of a step: `if self.current_epoch < 10` takes one way in some steps of a run and another in others.

A graph has all of them, and takes the outputs of the one that the numbers of the run ask for. What the courses have in common is in it once.
"""

import dataclasses
import itertools
import math
from typing import Any

import torch
from torch._functorch.compile_utils import fx_graph_cse
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from levin_train.errors import refuse
from levin_train.stand_ins import NUMBERS

MOST = 4  # courses, each of which is computed in each step
ADVICE = ("Compute with the number itself: loss + (self.global_step > 100) * extra; or min(1.0, self.global_step / 100) * extra. Of branches those may "
          "stay that only log")
FREEZE = ("Freeze what is computed with it: hidden = torch.where(torch.tensor(self.current_epoch < 10), hidden.detach(), hidden). It then has a gradient "
           "of zero, so that an optimizer's decay of weights goes on")
_aten = torch.ops.aten
# What is drawn depends on the shape alone; of the last the mask.
_OF_SHAPE = (_aten.rand.default, _aten.rand_like.default, _aten.randn.default, _aten.randn_like.default, _aten.randint.default, _aten.randint.low,
             _aten.randint_like.default, _aten.randint_like.low_dtype, _aten.randperm.default, _aten.bernoulli_.float, _aten.uniform_.default,
             _aten.normal_.default, _aten.exponential_.default, _aten.random_.default, _aten.random_.to, getattr(_aten.random_, "from"),
             _aten.native_dropout.default)


@dataclasses.dataclass
class Course:
    """What a step does for some numbers of the run. `recorder`: of a run with these numbers."""

    recorder: Any
    numbers: dict[str, int]

    @property
    def turns(self):
        return tuple((turn.where, turn.taken) for turn in self.recorder.turns)


def numbers_to_try(courses):
    """Numbers of the run on both sides of those with which the step has compared them."""
    names = sorted({name for course in courses for name in course.recorder.turn_names}, key=NUMBERS.index)
    met = {value for course in courses for value in course.recorder.met if math.isfinite(value) and abs(value) < 2**40}
    around = {math.floor(value) + step for value in met for step in (-1, 0, 1, 2)}
    values = sorted(value for value in {0, 1, 2, 10**3, 10**6, *around} if value >= 0)
    together = [dict.fromkeys(names, value) for value in values]
    apart = [dict(zip(names, pair)) for pair in itertools.product(values, repeat=2)] if len(names) == 2 and len(values) <= 12 else []
    return [{name: chosen.get(name, 0) for name in NUMBERS} for chosen in [*together, *apart]]


def found_in(run, first):
    """All courses of a step. `run`: runs it with numbers of the run, and gives the recorder; `first`: the course that is known."""
    courses, tried = {first.turns: first}, [first.numbers]
    while first.recorder.turns:
        numbers = next((numbers for numbers in numbers_to_try(courses.values()) if numbers not in tried), None)
        if numbers is None:
            break
        tried.append(numbers)
        course = Course(run(numbers), numbers)
        courses.setdefault(course.turns, course)
        if len(courses) > MOST:
            turn = course.recorder.turns[-1]
            refuse(f"{turn.what}, and takes more than {MOST} ways", ADVICE, turn.where)
    return list(courses.values())


class Draws(TorchDispatchMode):
    """While it is active: keeps what is drawn, and gives it again in the courses after the first, each of which is for itself."""

    def __init__(self, kept):
        super().__init__()
        self._kept = kept  # (what is drawn, the tensors), of all courses before
        self._next = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in function.tags:
            return function(*args, **kwargs)
        what = (function, *(str(tuple(leaf.shape)) if isinstance(leaf, torch.Tensor) else str(leaf) for leaf in pytree.tree_leaves((args, kwargs))))
        position, self._next = self._next, self._next + 1
        if position == len(self._kept):
            result = function(*args, **kwargs)
            self._kept.append((what, pytree.tree_map_only(torch.Tensor, torch.clone, result)))
            return result
        known, result = self._kept[position]
        if known != what or function not in _OF_SHAPE:
            refuse("the step draws other random numbers on one way than on another, where it decides on a number of the run", ADVICE)
        if function is _aten.native_dropout.default:
            values, probability, _ = args
            scale = 0.0 if probability == 1 else 1 / (1 - probability)
            return values * result[1] * scale, result[1].clone()
        return args[0].copy_(result) if function._schema.is_mutable else pytree.tree_map_only(torch.Tensor, torch.clone, result)


def merged(step, runs):
    """One list of outputs, and their descriptions, of those of each course. `runs`: (outputs, descriptions, recorder) of each."""
    taken = []
    for _, _, recorder in runs:
        conditions = [condition == turn.taken for turn, condition in zip(recorder.turns, recorder.turn_conditions)]
        taken.append(torch.stack(conditions).all())
    found = [{_key(entry, index): (entry, output) for index, (output, entry) in enumerate(zip(outputs, described)) if entry["kind"] != "condition"}
             for outputs, described, _ in runs]
    _leave_out(step, found, [recorder for _, _, recorder in runs])
    described = [entry for entry, _ in found[0].values()]
    outputs = []
    for key, (entry, output) in found[0].items():
        for holds, other in zip(taken[1:], found[1:]):
            output = _chosen(step, holds, other[key][1], output, entry)
        outputs.append(output)
    for holds, (its, entries, _) in zip(taken, runs):
        for condition, entry in zip(its, entries):
            if entry["kind"] == "condition":
                outputs.append(torch.where(holds, condition.to(torch.bool), torch.full_like(holds, entry["taken"])))
                described.append(entry)
    outputs.append(torch.stack(taken).any())
    described.append({"kind": "condition", "taken": True, "where": runs[0][2].turns[0].where})
    return outputs, described


def _key(entry, index):
    return entry["kind"], entry.get("name"), entry.get("input")


def _chosen(step, holds, one, other, entry):
    if one is other:
        return one
    if one.shape != other.shape or one.dtype != other.dtype:
        refuse(f"{step.name} gives \"{entry.get('name', entry['kind'])}\" of another shape or type on one way than on another, where it decides on a number "
               "of the run", ADVICE, step.where)
    return torch.where(holds, one, other)


def _leave_out(step, found, recorders):
    """Leaves out what only some courses log: a package logs the same in each step. Refuses what only some give besides: an optimizer skips weights
    without a gradient."""
    for key in {key: None for each in found for key in each}:
        if all(key in each for each in found):
            continue
        kind, name = key[:2]
        turn = recorders[0].turns[0]
        if kind not in ("log", "metric", "weight"):
            what = f"the parameter {name} gets a gradient" if kind == "gradient" else f"the step gives {kind} {name}"
            refuse(f"{what} on one way alone, where it decides on a number of the run", FREEZE if kind == "gradient" else ADVICE, turn.where)
        line = next(recorder.lines[name] for recorder in recorders if name in recorder.lines)
        step.leave_out(name, f'{line}: "{name}" is left out of the package: the step logs it on one way alone, where it decides on a number of the run at '
                             f"{turn.where}")
    for each in found:
        for key in [key for key in each if key[1] in step.left_out and key[0] in ("log", "metric", "weight")]:
            del each[key]


def share(module):
    """Leaves what several courses compute in the graph once. One that writes to tensors stays as it is."""
    if not any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in module.graph.nodes):
        module.graph = fx_graph_cse(module.graph)
        module.graph.eliminate_dead_code()
        module.recompile()
