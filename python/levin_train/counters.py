"""Conditions on buffers that a step changes: whether all later steps go the way of the first."""

import torch

from levin_train import courses
from levin_train.errors import ExportError, refuse

_LATER = (*range(1, 17), 49, 99, 100, 199, 499, 999, 4999, 9999, 10**4, 10**6)  # steps after which conditions on what counts them are tried


def _after(first, second, steps):
    """What a number is after so many steps, if each changes it as the first does."""
    if first.dtype == torch.bool:
        return second.clone()
    return (first + steps * (second.long() - first.long())).to(first.dtype)


def check(step, recorder, tensors, numbers):
    """Refuses conditions on buffers alone that the step changes, where a later step goes another way: after so many steps, of buffers that count
    them, and of others at any time. `recorder`: of a run on these tensors and with these numbers of the run."""
    changed = set(step.buffers)
    decisions = [decision for decision in recorder.decisions if decision.kept & changed]
    if not decisions:
        return
    numbers = {name: torch.tensor(value) for name, value in numbers.items()}
    ways = courses.Course(recorder, {}).turns, [decision.taken for decision in recorder.decisions]
    states = {**step.weights.buffers, **{name: tensor.detach() for name, tensor in step.weights.parameters.items() if not tensor.requires_grad}}
    for decision in decisions:
        names = sorted(decision.kept & changed)
        counts = all(states[name].numel() == 1 and not states[name].is_floating_point() for name in names)
        if counts and all(_goes(step, ways, numbers, tensors, {name: _after(states[name], recorder.later[name], steps) for name in names})
                          for steps in _LATER):
            continue
        refuse(f"the step decides on {', '.join(names)}, which the step changes: a later step goes another way, and a package always goes this one",
               "Decide on self.global_step, which may have two ways, or take one of both with torch.where. What the first step alone does can be done "
               "before the export, by one step of the module", decision.where)


def _goes(step, ways, numbers, tensors, state):
    """Whether the step goes these ways with other values of some buffers. One with which it fails says nothing."""
    parameters, buffers = dict(step.weights.parameters), dict(step.weights.buffers)
    for name, value in state.items():
        (parameters if name in parameters else buffers)[name] = value
    try:
        return step.ways(numbers, parameters, buffers, tensors) == ways
    except ExportError:
        raise
    except Exception:
        return True
