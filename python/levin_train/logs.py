"""What a step logs, by name, as Lightning takes it; of the recording and of the reference alike."""

import torch

from levin_train import metric_objects
from levin_train.errors import calling_line, refuse
from levin_train.python_numbers import UNKNOWN_TEXT, Number, Unknown

REDUCTIONS = {"mean": "mean", "avg": "mean", "sum": "sum", "min": "min", "max": "max",
              torch.mean: "mean", torch.sum: "sum", torch.min: "min", torch.max: "max", sum: "sum", min: "min", max: "max"}
_RESERVED = ("step", "epoch")  # for levin's own columns


class Logs:
    """Takes the calls of log(). `numbers`: of the run, by name."""

    def __init__(self, numbers):
        self.numbers = numbers
        self.logs = {}  # name: (tensor or None, options, number of samples or None, what a metric object was updated with)
        self.lines = {}  # of the calls, by name
        self._values = {}  # as they were given
        self.unknown = []  # (name, metric object, its update or None, line, options) of those that levin does not have
        self.optional = set()  # names that are logged in a branch which a run does not always take

    def number(self, name):
        return self.numbers[name]

    def note(self, text):
        """What is left out of the package, or fixed in it."""

    def print(self, *values, **options):
        """The user's print()."""

    def decide_unknown(self, what, advice):
        """Which way a condition goes that is made of what a package does not have."""
        return False

    def log(self, name, value, prog_bar=False, logger=True, on_step=None, on_epoch=None, reduce_fx="mean", enable_graph=False,
            sync_dist=False, sync_dist_group=None, add_dataloader_idx=True, batch_size=None, metric_attribute=None, rank_zero_only=False):
        if isinstance(value, Unknown):
            what, advice, _ = value._levin
            self.note(f'{calling_line()}: "{name}" is left out: it is {what}, which a package does not have. {advice}')
            return
        if name in _RESERVED:
            self.note(f'{calling_line()}: "{name}" is left out: levin writes the step and the epoch of every row itself')
            return
        if UNKNOWN_TEXT in name:
            refuse(f'the name "{name}" is made of what a package does not have', "Log it under a name that stays the same")
        reduce_fx = getattr(reduce_fx, "builtin", reduce_fx)
        if reduce_fx not in REDUCTIONS:
            refuse(f'"{name}" is logged with reduce_fx={getattr(reduce_fx, "__name__", reduce_fx)}', "levin has mean, sum, min and max")
        options = {"on_step": on_step, "on_epoch": on_epoch, "prog_bar": prog_bar, "logger": logger is not False,
                   "reduce": REDUCTIONS[reduce_fx], "sync_dist": True if sync_dist else None, "rank_zero_only": rank_zero_only,
                   "add_dataloader_idx": add_dataloader_idx}
        if isinstance(value, dict):
            for key, part in value.items():
                self.log(f"{name}.{key}", part, prog_bar, logger, on_step, on_epoch, reduce_fx, enable_graph, sync_dist,
                         sync_dist_group, add_dataloader_idx, batch_size, metric_attribute, rank_zero_only)
            return
        weight = None if batch_size is None else _tensor(batch_size, torch.int64)
        updated = metric_objects.last_update(value) if metric_objects.is_metric(value) else None
        if metric_objects.is_metric(value) and (updated is None or updated.described is None):
            options = {"prog_bar": prog_bar, "logger": logger, "on_step": on_step, "on_epoch": on_epoch, "reduce_fx": reduce_fx, "sync_dist": sync_dist,
                       "add_dataloader_idx": add_dataloader_idx, "batch_size": batch_size, "rank_zero_only": rank_zero_only}
            self.unknown.append((name, value, updated, calling_line(), options))
            return
        if updated is not None:  # which has its own reduction, whatever the others of a log_dict() are given
            entry = (None, {**options, "reduce": "mean"}, None, updated)
        else:
            tensor = _tensor(value.value() if isinstance(value, metric_objects.Updated) else value, torch.get_default_dtype())
            if tensor.numel() != 1:
                refuse(f'"{name}" is logged with {tensor.numel()} values', "Log one value: its mean, or each under a name")
            entry = (tensor.reshape(()), options, weight, None)
        self.logs[name] = self._again(name, entry, value) if name in self.logs else entry
        self._values[name] = value
        self.lines.setdefault(name, calling_line())

    def end(self):
        """At the end of the step. Of metric objects that levin does not have, those are logged that the step's loss is: by their value in each
        batch."""
        for name, metric, updated, line, options in self.unknown:
            lacks = f"levin has no metric like {type(metric).__module__.split('.')[0]}'s {type(metric).__name__}"
            if updated is None or not updated.used:
                self.note(f'{line}: "{name}" is left out: {lacks}. Log a tensor, or write the metric in C++')
                continue
            self.lines.setdefault(name, line)
            self.log(name, updated.value(), **options)
            self.note(f'{line}: "{name}" has for an epoch the mean of its values in the batches: {lacks}')

    def _again(self, name, entry, given):
        """Of a name that is logged twice, as in Lightning: a step has its last value, and an epoch both."""
        first = self.logs[name]
        if first[1] != entry[1]:
            refuse(f'"{name}" is logged twice in one step with different options, which Lightning does not take either',
                   "Log it once, or under two names")
        if first[3] is not None or entry[3] is not None:
            if first[3] is entry[3]:
                return entry
            refuse(f'the metric object of "{name}" is logged again after another update in one step', "Log it once, after both")
        value, options = entry[0], entry[1]
        of_step, of_epoch = (given if given is not None else default for given, default in
                             ((options["on_step"], self.training), (options["on_epoch"], not self.training)))
        reduce = options["reduce"]
        if not of_epoch or given is self._values[name] and reduce != "sum":
            return entry
        if of_step or entry[2] is not None or first[2] is not None:
            refuse(f'"{name}" is logged twice in one step with other values, and for the epoch too', "Log it once, or under two names")
        both = torch.stack([first[0].to(value.dtype), value])
        return (getattr(both, {"min": "amin", "max": "amax"}.get(reduce, reduce))(), *entry[1:])

    def log_dict(self, values, *args, **options):
        for name, value in values.items():
            self.log(name, value, *args, **options)


def _tensor(value, dtype):
    if isinstance(value, Number):
        value = value.tensor.to(dtype)
    if isinstance(value, torch.Tensor):
        return value.detach() if value.dtype.is_floating_point or dtype != torch.int64 else value.detach().reshape(()).to(dtype)
    return torch.scalar_tensor(value, dtype=dtype)
