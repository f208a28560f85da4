"""torch.utils.checkpoint in a graph: the function runs as it is, and the compiled graph decides itself what it keeps.

Its gradients are those of the function. What the second run of the function does besides, in the backward pass, the graph does too:
running means of a normalization are updated twice. Random numbers are drawn once, as checkpoint() draws the same ones again.
"""

import contextlib

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from levin_train import torch_patches
from levin_train.errors import refuse


class _Drawn(TorchDispatchMode):
    """Keeps what is drawn, or gives it again (`again`)."""

    def __init__(self, again=None):
        super().__init__()
        self.results = []
        self._again = again

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if torch.Tag.nondeterministic_seeded not in function.tags:
            return function(*args, **(kwargs or {}))
        if self._again is None:
            result = function(*args, **(kwargs or {}))
            self.results.append(pytree.tree_map_only(torch.Tensor, torch.clone, result))  # what is drawn may be changed in place
            return result
        result = self._again.pop(0)
        return args[0].copy_(result) if function._schema.is_mutable else result


def _second_run(function, args, kwargs, drawn, preserve, recorder, answers):
    if drawn.results and not preserve:
        refuse("checkpoint() with preserve_rng_state=False draws other random numbers in the backward pass than in the forward pass",
               "Leave out preserve_rng_state=False")
    with torch.no_grad(), recorder.repeating(answers), _Drawn(list(drawn.results)):
        function(*args, **kwargs)


@contextlib.contextmanager
def run_through(recorder):
    """While it lasts, checkpoint() runs its function without checkpointing."""
    def reentrant(function, preserve, *args):
        gradients = torch.is_grad_enabled() and any(isinstance(value, torch.Tensor) and value.requires_grad for value in args)
        before = len(recorder.answers)
        with _Drawn() as drawn, torch.set_grad_enabled(gradients):  # without an input that requires one, its weights get none
            result = function(*args)
        if gradients:
            _second_run(function, args, {}, drawn, preserve, recorder, recorder.answers[before:])
        return result

    def hooks(function, preserve, context_fn, determinism_check, debug, early_stop, *args, **kwargs):
        gradients, before = torch.is_grad_enabled(), len(recorder.answers)
        with _Drawn() as drawn:
            yield
        if gradients:
            _second_run(function, args, kwargs, drawn, preserve, recorder, recorder.answers[before:])

    with torch_patches.checkpoint(reentrant, hooks):
        yield
