"""The module's own step, with which a package is compared: PyTorch runs it as in training, and loss.backward() computes its gradients.

Nothing of the recording takes part. Numbers of the run are Python's, checkpoint() runs its function again in the backward pass, and
each parameter counts, also one that the package has no gradient for.
"""

import torch

from levin_train.branches import logging_condition
from levin_train.errors import calling_frame
from levin_train.logs import Logs
from levin_train.step_outputs import outputs_of


class _Taken(Logs):
    """What the step logs. In a branch that only logs it logs too, whatever a package does not have there."""

    def __init__(self, numbers, training):
        super().__init__(numbers)
        self.training = training

    def decide_unknown(self, what, advice):
        return logging_condition(calling_frame())[0] or False


def outcome(step, numbers, parameters, buffers, tensors):
    """All that the step gives, by kind and name, and the names of what it logs. Parameters and buffers are by name; they and the batch
    are not changed. What the step raises comes out."""
    state = {name: tensor.detach().clone().requires_grad_(tensor.requires_grad) for name, tensor in {**parameters, **buffers}.items()}
    taken = _Taken(numbers, step.training)
    with step.inside(taken, state, recorded=False), torch.set_grad_enabled(step.training):
        with step.autocast():
            result = step.called([tensor.clone() for tensor in tensors], taken)
            loss, extras = outputs_of(result, step.training, step.where)
            taken.end()
        if step.training:
            loss.reshape(()).backward()
        now = {**state, **{name: step.module.get_buffer(name) for name in buffers}}
    found = {("extra", name): tensor for name, tensor in extras}
    if loss is not None:
        found["loss", None] = loss.reshape(())
    for name, (value, _, weight, updated) in taken.logs.items():
        if updated is None:
            found["log", name] = value
        else:
            found |= {("metric", name, position): tensor for position, tensor in enumerate(updated.inputs)}
        if weight is not None:
            found["weight", name] = weight
    found |= {("buffer", name): tensor for name, tensor in now.items() if name in buffers or not tensor.requires_grad}
    found |= {("gradient", name): state[name].grad for name in parameters if state[name].grad is not None}
    return {key: tensor.detach() for key, tensor in found.items()}
