"""Hooks that make up a step of training, as optimizer_step() and transfer_batch_to_device(): whether one that the user has written does what
Lightning's own does, and nothing else."""

import torch

from levin_train.structure import flatten

_NUMBERS = (0, 1, 7, 100)  # of the batch, the step and the epoch, at which a hook is looked at


class _Only:
    """An object of which a hook may call one method alone. `calls`: with what it was called."""

    def __init__(self, method):
        self.__dict__.update(_method=method, calls=[])

    def __getattr__(self, name):
        if name != self._method:
            raise AttributeError(name)
        return lambda *arguments, **options: self.calls.append((arguments, options))

    def __setattr__(self, name, value):
        raise AttributeError(name)


def _calls_once(method, allowed):
    """Whether a hook calls `method` of what it is given once, as in `allowed`, with pairs of arguments and options."""
    def look(call, *_):
        given = _Only(method)
        call(given)
        return len(given.calls) == 1 and given.calls[0] in allowed

    return look


def _zeroes_gradients(hook, number, *_):
    return _calls_once("zero_grad", (((), {}), ((), {"set_to_none": True}), ((True,), {})))(lambda optimizer: hook(number, number, optimizer))


def _steps_optimizer(hook, number, *_):
    def closure():
        raise AssertionError("the optimizer alone calls it")

    return _calls_once("step", (((), {"closure": closure}), ((closure,), {})))(lambda optimizer: hook(number, number, optimizer, closure))


def _steps_schedule(hook, *_):
    return all(_calls_once("step", allowed)(lambda schedule, metric=metric: hook(schedule, metric)) for metric, allowed in (
        (None, (((), {}),)), (0.5, (((0.5,), {}), ((), {"metrics": 0.5})))))


def _computes_gradients(hook, *_):
    return _calls_once("backward", (((), {}),))(hook)


def _clips_gradients(hook, _, module, __):
    def clip_gradients(optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        calls.append((optimizer, gradient_clip_val, gradient_clip_algorithm))

    calls, given = [], (_Only("nothing"), 0.5, "norm")
    vars(module)["clip_gradients"] = clip_gradients
    try:
        hook(*given)
    finally:
        del vars(module)["clip_gradients"]
    return calls == [given]


def _gives_batch_back(*arguments):
    def look(hook, _, __, batch):
        leaves, structure = flatten(batch)
        values = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for _, leaf in leaves]
        results, of_results = flatten(hook(batch, *arguments))
        return structure == of_results and all(map(_is_same, leaves, values, results))

    return look


def _is_same(leaf, value, result):
    return result[1] is leaf[1] and (not isinstance(value, torch.Tensor) or torch.equal(leaf[1], value))


_LOOKS = {
    "optimizer_zero_grad": _zeroes_gradients,
    "optimizer_step": _steps_optimizer,
    "lr_scheduler_step": _steps_schedule,
    "backward": _computes_gradients,
    "configure_gradient_clipping": _clips_gradients,
    "transfer_batch_to_device": _gives_batch_back(torch.device("cpu"), 0),
    "on_before_batch_transfer": _gives_batch_back(0),
    "on_after_batch_transfer": _gives_batch_back(0),
}


def is_default(name, module, at_number, batch):
    """Whether the hook `name` of a module does what Lightning's does at each of some steps. `at_number`: makes a number that of the step and the
    epoch; `batch`: one of training. It raises whatever the hook raises on meeting something else than Lightning gives it."""
    hook = getattr(module, name)
    for number in _NUMBERS if name in _LOOKS else ():
        at_number(number)
        if not _LOOKS[name](hook, number, module, batch):
            return False
    return name in _LOOKS
