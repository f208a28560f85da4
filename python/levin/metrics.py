"""torchmetrics objects in a step: which of levin's metrics they are, and what they are updated with."""

import contextlib
import dataclasses
import sys
from typing import Any

from levin.errors import refuse


@dataclasses.dataclass
class Updated:
    """A metric object after update(): what log() takes."""

    name: str  # of the attribute
    class_path: str
    init_args: dict[str, Any]
    inputs: list[Any]


def is_metric(value):
    base = getattr(sys.modules.get("torchmetrics"), "Metric", None)
    return base is not None and isinstance(value, base)


def last_update(metric):
    updated = vars(metric).get("_levin_updated")
    if updated is None:
        refuse(f"{type(metric).__name__} is logged before it is updated in this step", "Call it, or its update(), first")
    return updated


@contextlib.contextmanager
def recorded(module):
    """While it lasts, metric objects of the module keep what they are updated with, and compute nothing."""
    found = [(name, part) for name, part in module.named_modules() if is_metric(part)]
    for name, metric in found:
        def update(*inputs, _name=name, _metric=metric, **named):
            class_path, init_args = equivalent(_metric)
            updated = Updated(_name, class_path, init_args, [*inputs, *named.values()])
            vars(_metric)["_levin_updated"] = updated
            return updated

        vars(metric).update({"forward": update, "update": update})
    try:
        yield
    finally:
        for _, metric in found:
            for name in ("forward", "update", "_levin_updated"):
                vars(metric).pop(name, None)


_TASKS = {"Binary": "binary", "Multiclass": "multiclass", "Multilabel": "multilabel"}
_LABELS = ("average", "top_k", "ignore_index", "threshold", "num_classes", "num_labels")
_CURVES = ("thresholds", "average", "ignore_index", "num_classes", "num_labels")
_OPTIONS = {
    "Accuracy": _LABELS, "Precision": _LABELS, "Recall": _LABELS, "F1Score": _LABELS, "Specificity": _LABELS,
    "HammingDistance": _LABELS, "FBetaScore": (*_LABELS, "beta"), "JaccardIndex": _LABELS,
    "ConfusionMatrix": ("threshold", "ignore_index", "normalize", "num_classes", "num_labels"),
    "CohenKappa": ("threshold", "ignore_index", "weights", "num_classes"),
    "MatthewsCorrCoef": ("threshold", "ignore_index", "num_classes", "num_labels"),
    "AUROC": (*_CURVES, "max_fpr"), "AveragePrecision": _CURVES,
    "CalibrationError": ("n_bins", "norm", "ignore_index", "num_classes"),
    "MeanSquaredError": ("squared", "num_outputs"), "MeanAbsoluteError": ("num_outputs",), "MeanAbsolutePercentageError": (),
    "R2Score": ("adjusted", "multioutput"), "ExplainedVariance": ("multioutput",), "PearsonCorrCoef": ("num_outputs",),
    "SpearmanCorrCoef": ("num_outputs",), "CosineSimilarity": ("reduction",), "KLDivergence": ("log_prob", "reduction"),
    "Perplexity": ("ignore_index",), "MeanMetric": ("nan_strategy",), "SumMetric": ("nan_strategy",),
    "MaxMetric": ("nan_strategy",), "MinMetric": ("nan_strategy",),
}


def equivalent(metric):
    """levin's class and arguments for a metric of torchmetrics. Raises ExportError for one that levin does not have."""
    name = type(metric).__name__
    task = next((prefix for prefix in _TASKS if name.startswith(prefix)), "")
    class_path = name.removeprefix(task)
    if class_path not in _OPTIONS:
        refuse(f"levin has no metric like torchmetrics' {name}", "Log a tensor, or write the metric in C++")
    init_args = {"task": _TASKS[task]} if task else {}
    for option in _OPTIONS[class_path]:
        value = getattr(metric, option, None)
        value = value.tolist() if hasattr(value, "tolist") else value
        if value is not None and (task != "Binary" or option not in ("average", "top_k", "num_classes", "num_labels")):
            init_args[option] = value
        elif option == "average" and hasattr(metric, option) and task != "Binary":
            init_args[option] = "none"
    return class_path, init_args
