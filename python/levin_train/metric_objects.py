"""torchmetrics objects in a step: which of levin's metrics they are, and what they are updated with."""

import contextlib
import copy
import dataclasses
import sys
from typing import Any

from levin_train.errors import refuse
from levin_train.registered import METRICS


@dataclasses.dataclass
class Updated:
    """What calling a metric object gives: its value for this batch, computed where it is logged."""

    name: str  # of the attribute
    class_path: str
    init_args: dict[str, Any]
    inputs: list[Any]
    spare: Any
    arguments: tuple[list[Any], dict[str, Any]]

    def of_this_batch(self):
        self.spare.reset()
        self.spare.update(*self.arguments[0], **self.arguments[1])
        return self.spare.compute()


def is_metric(value):
    base = getattr(sys.modules.get("torchmetrics"), "Metric", None)
    return base is not None and isinstance(value, base)


def last_update(metric):
    updated = vars(metric).get("_levin_updated")
    if updated is None:
        refuse(f"{type(metric).__name__} is logged before it is updated in this step", "Call it, or its update(), first")
    return updated


def _refused(name, what):
    def method(*_, **__):
        refuse(f"the step calls {what}() of the metric {name}",
               "Log the metric: self.log(name, self.metric). levin computes it where an epoch ends")

    return method


_REPLACED = ("forward", "update", "compute", "reset", "_levin_updated")


def spares(module):
    """Copies of the metric objects of a module, with which values of one batch are computed."""
    found = {name: copy.deepcopy(part) for name, part in module.named_modules() if is_metric(part)}
    for spare in found.values():
        if hasattr(spare, "validate_args"):
            spare.validate_args = False
    return found


@contextlib.contextmanager
def recorded(module, spares):
    """While it lasts, metric objects of the module keep what they are updated with, and compute nothing."""
    found = [(name, part) for name, part in module.named_modules() if is_metric(part)]
    collections = [part for part in module.modules() if type(part).__name__ == "MetricCollection"]
    kept = [(part, {name: vars(part)[name] for name in _REPLACED if name in vars(part)})
            for part in [*(metric for _, metric in found), *collections]]
    for name, metric in found:
        def update(*inputs, _name=name, _metric=metric, **named):
            updated = Updated(_name, *equivalent(_metric), [*inputs, *named.values()], spares[_name], (inputs, named))
            vars(_metric)["_levin_updated"] = updated
            return updated

        vars(metric).update({"forward": update, "update": update, "compute": _refused(name, "compute"), "reset": _refused(name, "reset")})
    for collection in collections:
        def update_all(*inputs, _collection=collection, **named):
            return {name: metric(*inputs, **metric._filter_kwargs(**named))
                    for name, metric in _collection.items(keep_base=False, copy_state=False)}

        vars(collection).update({"forward": update_all, "update": update_all})
    try:
        yield
    finally:
        for part, attributes in kept:
            for name in _REPLACED:
                vars(part).pop(name, None)
            vars(part).update(attributes)


_TASKS = {"Binary": "binary", "Multiclass": "multiclass", "Multilabel": "multilabel"}
# torchmetrics' classes of these names take texts, or wrap other metrics.
_NOT_EXPORTED = {"BLEUScore", "EditDistance", "RunningMean", "RunningSum"}


def equivalent(metric):
    """levin's class and arguments for a metric of torchmetrics. Raises ExportError for one that levin does not have."""
    name = type(metric).__name__
    task = next((prefix for prefix in _TASKS if name.startswith(prefix)), "")
    class_path = name.removeprefix(task)
    if class_path not in METRICS or class_path in _NOT_EXPORTED:
        refuse(f"levin has no metric like torchmetrics' {name}", "Log a tensor, or write the metric in C++")
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
    return class_path, init_args
