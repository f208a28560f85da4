"""torchmetrics objects in a step: which of levin's metrics they are, and what they are updated with."""

import contextlib
import copy
import functools
import sys

from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from levin_train.errors import refuse
from levin_train.registered import METRICS


class Updated:
    """What calling a metric object gives. It is the metric's value for this batch, with gradients, from where it is first used as one:
    computed before, it would put what nobody asks for into the graph."""

    def __init__(self, name, metric, spare, arguments, named):
        self.name = name  # of the attribute
        self.inputs = [*arguments, *named.values()]
        self.used = False  # as a value, as a loss is
        self.logged = False
        self.described = None  # levin's metric, for the package, where the object is logged
        self._compute = lambda: spare(*arguments, **named)
        self._metric, self._spare = metric, spare
        self._value = None

    def value(self, used=True):
        self.used = self.used or used
        if self._value is None:
            self._spare.reset()
            _take_settings(self._metric, self._spare)
            try:
                self._value = self._compute()
            except GuardOnDataDependentSymNode:
                refuse(f"the value of self.{self.name}, a {type(self._metric).__name__}, for one batch is computed in a way that depends on the numbers in it",
                       f"Call self.{self.name}.update(…), and log the object, self.log(…, self.{self.name}): its value is computed at the end of an epoch")
        return self._value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value(), name)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map(lambda leaf: leaf.value() if isinstance(leaf, Updated) else leaf, (args, kwargs or {}))
        return function(*args, **kwargs)


@functools.cache
def _of_library():
    """Attributes that torchmetrics and levin keep in a metric for themselves."""
    return {*vars(sys.modules["torchmetrics"].SumMetric()), *_REPLACED}


def _take_settings(metric, spare):
    """Gives a spare what the step has set of the metric since it was copied, as a transformation that a batch asks for."""
    for name, value in vars(metric).items():
        plain = isinstance(value, (bool, int, float, str, type(None)))
        if name not in _of_library() and name not in metric._defaults and (name not in vars(spare) or plain):
            vars(spare)[name] = value


def _of_value(name):
    return lambda self, *others: getattr(self.value(), name)(*(other.value() if isinstance(other, Updated) else other for other in others))


for _operator in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "neg", "abs", "lt", "le", "gt", "ge", "getitem",
                  "bool", "float", "int", "format", "len", "iter"):
    setattr(Updated, f"__{_operator}__", _of_value(f"__{_operator}__"))


def is_metric(value):
    base = getattr(sys.modules.get("torchmetrics"), "Metric", None)
    return base is not None and isinstance(value, base)


def last_update(metric):
    """What it was last updated with in this step; None of one that levin does not have, which another may have updated."""
    updated = vars(metric).get("_levin_updated")
    if updated is None:
        if not has_equivalent(metric):
            return None
        refuse(f"{type(metric).__name__} is logged before it is updated in this step", "Call it, or its update(), first")
    updated.logged = True
    if has_equivalent(metric):
        updated.described = {**equivalent(metric), "attribute": updated.name}
    return updated


def _refused(name, what):
    def method(*_, **__):
        refuse(f"the step calls {what}() of the metric {name}",
               "Log the metric: self.log(name, self.metric). levin computes it where an epoch ends")

    return method


_REPLACED = ("forward", "update", "compute", "reset", "_levin_updated")


def _kept_in(value):
    """Metric objects in a list or dict, with their keys."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return [(str(key), part) for key, part in pairs if is_metric(part)]


def metrics_of(module):
    """The metric objects of a module by name, also those in lists and dicts that are not registered."""
    found = {}
    for prefix, part in module.named_modules():
        if is_metric(part):
            found[prefix] = part
            continue
        for name, value in vars(part).items():
            if not name.startswith("_"):
                found.update({".".join(filter(None, (prefix, name, key))): metric for key, metric in _kept_in(value)})
    return found


def spares(module):
    """Copies of the metric objects of a module, with which values of one batch are computed."""
    found = {name: copy.deepcopy(part) for name, part in metrics_of(module).items()}
    if found:
        _of_library()  # makes a metric, which is not to be in a graph
    for spare in found.values():
        if hasattr(spare, "validate_args"):
            spare.validate_args = False
    return found


@contextlib.contextmanager
def unchecked_functions():
    """While it lasts, the functions of torchmetrics do not look at the numbers that they are given, which a graph has not."""
    kept = [(module, name, value) for source, module in list(sys.modules.items()) if source.startswith("torchmetrics.functional.")
            for name, value in vars(module).items() if name.endswith("_tensor_validation")]
    for module, name, _ in kept:
        setattr(module, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


@contextlib.contextmanager
def recorded(module, spares):
    """While it lasts, metric objects of the module keep what they are updated with, and compute nothing. Gives a function for the names
    of those that were updated, and neither logged nor used."""
    found = metrics_of(module)
    collections = [part for part in module.modules() if type(part).__name__ == "MetricCollection"]
    kept = [(part, {name: vars(part)[name] for name in _REPLACED if name in vars(part)}) for part in [*found.values(), *collections]]
    for name, metric in found.items():
        def update(*inputs, _name=name, _metric=metric, **named):
            updated = Updated(_name, _metric, spares[_name], inputs, named)
            vars(_metric)["_levin_updated"] = updated
            return updated

        vars(metric).update({"forward": update, "update": update, "compute": _refused(name, "compute"), "reset": _refused(name, "reset")})
    for collection in collections:
        def update_all(*inputs, _collection=collection, **named):
            return {name: metric(*inputs, **metric._filter_kwargs(**named))
                    for name, metric in _collection.items(keep_base=False, copy_state=False)}

        vars(collection).update({"forward": update_all, "update": update_all})
    try:
        yield lambda: [name for name, metric in found.items() if (last := vars(metric).get("_levin_updated")) is not None and not (last.used or last.logged)]
    finally:
        for part, attributes in kept:
            for name in _REPLACED:
                vars(part).pop(name, None)
            vars(part).update(attributes)


_TASKS = {"Binary": "binary", "Multiclass": "multiclass", "Multilabel": "multilabel"}
# torchmetrics' classes of these names take texts, or wrap other metrics.
_NOT_EXPORTED = {"BLEUScore", "EditDistance", "RunningMean", "RunningSum"}


def _names(metric):
    """The prefix of a metric's class that names a task, and what levin's class would be."""
    name = type(metric).__name__
    task = next((prefix for prefix in _TASKS if name.startswith(prefix)), "")
    return task, name.removeprefix(task)


def has_equivalent(metric):
    class_path = _names(metric)[1]
    return class_path in METRICS and class_path not in _NOT_EXPORTED and type(metric).__module__.split(".")[0] == "torchmetrics"


def equivalent(metric):
    """levin's metric for one of torchmetrics that it has."""
    task, class_path = _names(metric)
    init_args = {"task": _TASKS[task]} if task else {}
    for option in METRICS[class_path]:
        if option == "task":
            continue
        value = getattr(metric, option, None)
        value = value.tolist() if hasattr(value, "tolist") else value
        if value is not None and (task != "Binary" or option not in ("average", "top_k", "num_classes", "num_labels")):
            init_args[option] = value
        elif option == "average" and hasattr(metric, option) and task != "Binary":
            init_args[option] = "none"
    return {"class_path": class_path, "init_args": init_args}
