"""What a step does besides computing: what it logs, which numbers of the run it reads, and what it decides on values.

A step runs under a Recorder three times in the same way: unchanged, to see what it does; on tensors without values, to record its
graph; and as the reference that a package is compared with.
"""

import dataclasses
import inspect

import torch
from torch.overrides import TorchFunctionMode

from levin_train import metric_objects
from levin_train.batches import named_leaves
from levin_train.errors import calling_line, line_of, refuse

# Numbers that a run changes. A step may compute with them: they are inputs of the package.
NUMBERS = ("batch_idx", "dataloader_idx", "global_step", "current_epoch")
REDUCTIONS = {"mean": "mean", "avg": "mean", "sum": "sum", "min": "min", "max": "max",
              torch.mean: "mean", torch.sum: "sum", torch.min: "min", torch.max: "max", min: "min", max: "max"}

_READS = {
    "__int__": ("a number is made of a tensor's value: what depends on it would be fixed in the package",
                "Compute with the tensor itself; for sizes that come from data use masks over a fixed length"),
    "__index__": ("a tensor's value is used as an index or a size, which would be fixed in the package",
                  "Use torch.gather, index_select or a mask"),
    "__float__": ("a tensor's value is read as a Python number",
                  "Keep the tensor: self.log() takes it, and torch.cos() is there for math.cos()"),
    "__complex__": ("a tensor's value is read as a Python number", "Keep the tensor"),
    "tolist": ("tensors are read as a list", "Keep tensors"),
    "numpy": ("a tensor is given to numpy", "Use torch's function of that name"),
    "nonzero": ("nonzero() makes a tensor whose size comes from data", "Use a mask: torch.where(condition, a, b)"),
    "masked_select": ("masked_select() makes a tensor whose size comes from data", "Multiply by the mask, and divide by its sum"),
    "argwhere": ("argwhere() makes a tensor whose size comes from data", "Use a mask: torch.where(condition, a, b)"),
    "equal": ("torch.equal() makes a Python value of tensors", "Use (a == b).all() with torch.where"),
    "allclose": ("torch.allclose() makes a Python value of tensors", "Use torch.isclose(a, b).all() with torch.where"),
    "_pack_padded_sequence": ("packed sequences cannot be exported: their size comes from data",
                              "Run the layer on the padded batch, and mask its outputs and the loss"),
    "backward": ("the step calls backward() itself", "Return the loss; its gradients are computed by levin"),
    "unique": ("unique() makes a tensor whose size comes from data", "Count in a fixed number of classes with scatter_add"),
}


@dataclasses.dataclass
class Decision:
    """A condition on values: the step took one way, which is the package's."""

    taken: bool
    where: str


class Recorder(TorchFunctionMode):
    """While it is active: calls of log() and conditions are recorded. `decisions`: the ways to take, from an earlier run."""

    def __init__(self, numbers, decisions=None):
        super().__init__()
        self.numbers = numbers
        self.numbers_read = {}  # name: the line that read it first
        self.logs = {}  # name: (tensor or None, options, tensors that a metric object takes, the metric)
        self.decisions = []
        self.conditions = []
        self.assigned = {}  # "self.name": the line that assigned it
        self._followed = decisions

    def number(self, name):
        self.numbers_read.setdefault(name, calling_line())
        return self.numbers[name]

    def log(self, name, value, prog_bar=False, logger=True, on_step=None, on_epoch=None, reduce_fx="mean", enable_graph=False,
            sync_dist=False, sync_dist_group=None, add_dataloader_idx=True, batch_size=None, metric_attribute=None, rank_zero_only=False):
        if name in self.logs:
            refuse(f'"{name}" is logged twice in one step', "Log it once, or under two names")
        if reduce_fx not in REDUCTIONS:
            refuse(f'"{name}" is logged with reduce_fx={reduce_fx!r}', "levin has mean, sum, min and max")
        options = {"on_step": on_step, "on_epoch": on_epoch, "prog_bar": prog_bar, "logger": logger is not False,
                   "reduce": REDUCTIONS[reduce_fx], "sync_dist": True if sync_dist else None, "rank_zero_only": rank_zero_only,
                   "add_dataloader_idx": add_dataloader_idx}
        weight = batch_size
        if batch_size is not None and not isinstance(batch_size, torch.Tensor):
            weight = torch.scalar_tensor(batch_size, dtype=torch.int64)
        elif batch_size is not None:
            weight = batch_size.detach().reshape(()).to(torch.int64)
        if isinstance(value, metric_objects.Updated):
            value = value.of_this_batch()
        if metric_objects.is_metric(value):
            self.logs[name] = (None, options, weight, metric_objects.last_update(value))
        elif isinstance(value, dict):
            for key, part in value.items():
                self.log(f"{name}.{key}", part, prog_bar, logger, on_step, on_epoch, reduce_fx, enable_graph, sync_dist,
                         sync_dist_group, add_dataloader_idx, batch_size, metric_attribute, rank_zero_only)
        else:
            tensor = value.detach() if isinstance(value, torch.Tensor) else torch.scalar_tensor(value, dtype=torch.float32)
            if tensor.numel() != 1:
                refuse(f'"{name}" is logged with {tensor.numel()} values', "Log one value: its mean, or each under a name")
            self.logs[name] = (tensor, options, weight, None)

    def log_dict(self, values, *args, **options):
        for name, value in values.items():
            self.log(name, value, *args, **options)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name == "__bool__" and isinstance(args[0], torch.Tensor):
            return self._decide(args[0])
        if name == "item":
            return args[0].detach().reshape(())
        if name == "__len__" and args[0].dim() > 0:
            return args[0].shape[0]
        if name in ("__format__", "__repr__") and any(args[0] is number for number in self.numbers.values()):
            refuse("a number of the run is made a text", "Log it under a name that stays the same")
        if name == "where" and len(args) + len(kwargs) == 1:
            name = "nonzero"
        if name in _READS and not kwargs.get("as_tuple") and calling_line():
            what, advice = _READS[name]
            refuse(what, advice)
        return function(*args, **kwargs)

    def _decide(self, condition):
        if self._followed is None:
            taken = bool(condition)
        elif len(self.decisions) < len(self._followed):
            taken = self._followed[len(self.decisions)].taken
        else:
            refuse("the step decides on values in another order when it is run again", "Make it deterministic for one batch")
        self.decisions.append(Decision(taken, calling_line()))
        self.conditions.append(condition.detach().reshape(()).to(torch.bool))
        return taken


class _TrainerStandIn:
    """What a step sees as self.trainer: the numbers of the run."""

    def __init__(self, recorder, training):
        self._recorder = recorder
        self.training = training
        self.sanity_checking = False
        self.is_global_zero = True

    def __getattr__(self, name):
        if name in NUMBERS:
            return self._recorder.number(name)
        refuse(f"the step reads self.trainer.{name}, which would be fixed in the package",
               "Put the value into __init__, or compute with self.global_step or self.current_epoch")


def _refused(name, advice):
    def method(self, *args, **kwargs):
        refuse(f"the step calls self.{name}(), which a package cannot do", advice)

    return method


_MANUAL = "Manual optimization cannot be exported: write this training_step in C++, with levin::CompiledFunction for its parts"


def stand_in_class(module_class, recorder, training, path):
    """The class of a LightningModule while its step is recorded. `path`: its name in the module that is exported."""
    def assign(self, name, value):
        recorder.assigned[f"self.{path}.{name}".replace("..", ".")] = calling_line()
        module_class.__setattr__(self, name, value)

    members = {
        "__setattr__": assign,
        "log": lambda self, *args, **options: recorder.log(*args, **options),
        "log_dict": lambda self, *args, **options: recorder.log_dict(*args, **options),
        "print": lambda self, *args, **options: None,
        "global_step": property(lambda self: recorder.number("global_step")),
        "current_epoch": property(lambda self: recorder.number("current_epoch")),
        "trainer": property(lambda self: _TrainerStandIn(recorder, training)),
        "logger": None,
        "loggers": [],
        "all_gather": _refused("all_gather", "Log values: levin reduces them over ranks"),
        "optimizers": _refused("optimizers", _MANUAL),
        "lr_schedulers": _refused("lr_schedulers", _MANUAL),
        "manual_backward": _refused("manual_backward", _MANUAL),
    }
    return type(module_class.__name__, (module_class,), members)


def call_step(function, module, batch, recorder):
    """Calls a step as Lightning does: with the number of the batch, and of its loader, where it takes them."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(parameter.name == "dataloader_iter" for parameter in parameters):
        refuse("the step takes dataloader_iter", "Take a batch", line_of(function))
    count = sum(parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters) - 2
    if any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters):
        count = max(1, count)
    names = NUMBERS[:max(0, min(2, count))]
    return function(module, batch, *(recorder.numbers[name] for name in names))


def outputs_of(result, training, where):
    """The loss, and what else a step returns, by name."""
    if result is None and training:
        refuse("the step gives no loss for this batch", "Return the loss", where)
    if training or isinstance(result, dict) and "loss" in result:
        loss = result["loss"] if isinstance(result, dict) else result
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            refuse("the step's loss is not a tensor of one value", "Return one, as .mean() gives it", where)
        rest = {name: value for name, value in result.items() if name != "loss"} if isinstance(result, dict) else {}
        return loss, [pair for pair in named_leaves(rest, "output")[0] if isinstance(pair[1], torch.Tensor)]
    return None, [pair for pair in named_leaves(result, "output")[0] if isinstance(pair[1], torch.Tensor)]
