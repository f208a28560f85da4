#!/usr/bin/env python3
"""Writes references.json: what torchmetrics says of every case in it. `make metric-references` runs it with a Python that has
torch and torchmetrics 1.9. The inputs are made here and in reference_test.cpp alike, so that only results are stored."""
import json
import math
import pathlib
import warnings

import torch
import torchmetrics

warnings.filterwarnings("ignore")
torch.set_default_dtype(torch.float64)
VOCABULARY = ["the", "cat", "sat", "on", "a", "mat", "straße", "日本", "x"]


class Numbers:
    """splitmix64: numbers from 0 to 1."""

    def __init__(self, seed):
        self.state = seed

    def __call__(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 11) * 2.0**-53

    def below(self, count):
        return int(self() * count)


FORMS = {
    "unit": lambda u: u,
    "logit": lambda u: 8 * u - 4,
    "tie": lambda u: math.floor(5 * u) / 4,
    "same": lambda u: 0.5,
    "positive": lambda u: 0.1 + u,
    "log": lambda u: math.log(0.1 + u),
}


def numbers(draw, shape, form):
    return torch.tensor([FORMS[form](draw()) for _ in range(math.prod(shape))]).reshape(shape)


def labels(draw, shape, count, form, ignore):
    values = []
    for _ in range(math.prod(shape)):
        value = draw.below(count)
        if form == "one":
            value = 1
        if ignore is not None and draw() < 0.25:
            value = ignore
        values.append(value)
    return torch.tensor(values, dtype=torch.long).reshape(shape)


def sentence(draw, words):
    return [VOCABULARY[draw.below(len(VOCABULARY))] for _ in range(words)]


def changed(draw, words):
    return [VOCABULARY[draw.below(len(VOCABULARY))] if draw() < 0.25 else word for word in words[: 1 + draw.below(len(words))]]


def batch(draw, kind, size):
    """Predictions and targets of a batch; as reference_test.cpp does."""
    task, form, inner, classes = kind["task"], kind.get("form", "unit"), kind.get("inner", []), kind.get("classes", 0)
    label_form, ignore = kind.get("labels", "any"), kind.get("ignore")
    if task == "multiclass":
        shape = [size] + inner
        scores = labels(draw, shape, classes, "any", None) if form == "label" else numbers(draw, [size, classes] + inner, form)
        return scores, labels(draw, shape, classes, label_form, ignore)
    if task in ("binary", "multilabel"):
        shape = [size] + ([classes] if task == "multilabel" else []) + inner
        scores = labels(draw, shape, 2, "any", None) if form == "label" else numbers(draw, shape, form)
        return scores, labels(draw, shape, 2, label_form, ignore)
    if task == "regression":  # predictions are near the targets
        shape = [size] + inner
        targets = numbers(draw, shape, form)
        return targets + 0.5 * numbers(draw, shape, "unit") - 0.25 if form != "tie" else numbers(draw, shape, form), targets
    if task == "rows":
        return numbers(draw, [size] + inner, form), numbers(draw, [size] + inner, form)
    if task == "tokens":
        return numbers(draw, [size, 5, classes], form), labels(draw, [size, 5], classes, label_form, ignore)
    if task == "values":
        return numbers(draw, [size] + inner, form), numbers(draw, [size] + inner, "unit")
    predictions, targets = [], []
    for _ in range(size):
        target = sentence(draw, 4 + draw.below(9))
        targets.append([" ".join(target), " ".join(changed(draw, target))])
        predictions.append(" ".join(changed(draw, target)))
    return predictions, targets


INPUTS = {}
CASES = []
UNEVEN = [7, 1, 12, 5]


def given(name, sizes=UNEVEN, **kind):
    INPUTS[name] = {**kind, "seed": len(INPUTS) + 1, "sizes": sizes}
    return name


def case(metric, name, weighted=False, **options):
    kind = INPUTS[name]
    draw = Numbers(kind["seed"])
    task = {"task": kind["task"]} if kind["task"] in ("binary", "multiclass", "multilabel") else {}
    if kind["task"] == "multiclass":
        options = {"num_classes": kind["classes"], **options}
    if kind["task"] == "multilabel":
        options = {"num_labels": kind["classes"], **options}
    if "ignore" in kind:
        options["ignore_index"] = kind["ignore"]
    to_reference = {key: value for key, value in options.items() if key not in OURS_ONLY.get(metric, ())}
    place = {"RunningMean": torchmetrics.aggregation, "RunningSum": torchmetrics.aggregation, "EditDistance": torchmetrics.text}
    reference = getattr(place.get(metric, torchmetrics), metric)
    measured = reference(**task, **to_reference).set_dtype(torch.float64)
    for size in kind["sizes"]:
        predictions, targets = batch(draw, kind, size)
        if metric == "EditDistance":
            targets = [target[0] for target in targets]
        if kind["task"] == "values":
            measured.update(predictions, targets) if weighted else measured.update(predictions)
        else:
            measured.update(predictions, targets)
    try:
        value = measured.compute()
    except (ValueError, IndexError):  # torchmetrics has nothing to say of nothing
        value = torch.full([kind["classes"]] if options.get("average") == "none" else [], math.nan)
    value = torch.as_tensor(value)
    rounded = [None if math.isnan(v) else float(f"{v:.9g}") if math.isfinite(v) else str(v) for v in value.double().reshape(-1).tolist()]
    CASES.append([metric, name, options, rounded] + ([True] if weighted else []))


OURS_ONLY = {"R2Score": ("num_outputs",), "ExplainedVariance": ("num_outputs",)}

for task, classes in (("binary", 0), ("multiclass", 4), ("multilabel", 3)):
    more = {"classes": classes} if classes else {}
    for form in ("unit", "logit", "tie", "same", "label"):
        given(f"{task} {form}", task=task, form=form, **more)
    given(f"{task} one", task=task, form="unit", labels="one", **more)
    given(f"{task} one logit", task=task, form="logit", labels="one", **more)
    given(f"{task} ignored", task=task, form="logit", ignore=-1, **more)
    given(f"{task} ignored in range", task=task, form="unit", ignore=1, **more)
    given(f"{task} images", task=task, form="logit", inner=[2, 3], **more)
    given(f"{task} empty", task=task, form="unit", sizes=[], **more)
AVERAGES = ("micro", "macro", "weighted", "none")

for name, kind in list(INPUTS.items()):
    task, form = kind["task"], kind["form"]
    averages = ({},) if task == "binary" else tuple({"average": average} for average in AVERAGES)
    top = ({}, {"top_k": 2}) if task == "multiclass" and form != "label" and form != "same" and form != "tie" else ({},)
    plain = form in ("unit", "logit")
    for average in averages:
        for metric in ("Accuracy", "HammingDistance", "Specificity", "Precision", "Recall", "F1Score"):
            for k in top if plain else ({},):
                if k and ("ignore" in kind or "inner" in kind) and metric != "Accuracy":
                    continue
                case(metric, name, **average, **k)
        case("FBetaScore", name, beta=2.0, **average)
        case("JaccardIndex", name, **average)
        if "one" in name:
            for metric in ("Precision", "Recall", "F1Score", "JaccardIndex"):
                case(metric, name, zero_division=1, **average)
    for normalize in ("none", "true", "pred", "all"):
        case("ConfusionMatrix", name, normalize=normalize)
    # torchmetrics' own numbers where only one class occurs: see MatthewsCorrCoef.
    if task == "multiclass" or not any(word in name for word in ("one", "same", "in range")):
        case("MatthewsCorrCoef", name)
    if task != "multilabel":
        for weights in ("none", "linear", "quadratic"):
            case("CohenKappa", name, weights=weights)
    if form == "label":
        continue
    if task != "multilabel":
        for norm in ("l1", "l2", "max"):
            case("CalibrationError", name, norm=norm)
        case("CalibrationError", name, n_bins=4)
    for thresholds in (None, 7, [0.1, 0.25, 0.9, 0.5]):
        exact = thresholds is None
        if thresholds is not None and "ignored in range" in name and task == "multilabel":
            continue
        sorted_thresholds = thresholds if not isinstance(thresholds, list) else sorted(thresholds)
        for average in ({},) if task == "binary" else averages:
            if average.get("average") == "micro" and task == "multiclass":
                continue
            if exact and average.get("average") == "weighted" and "empty" in name:
                continue
            for metric in ("AUROC", "AveragePrecision"):
                case(metric, name, thresholds=sorted_thresholds, **average)
        if task == "binary" and exact:
            for max_fpr in (0.1, 0.5):
                case("AUROC", name, thresholds=thresholds, max_fpr=max_fpr)

for outputs in (1, 3):
    inner = [] if outputs == 1 else [outputs]
    many = {} if outputs == 1 else {"num_outputs": outputs}
    for form, sizes in (("logit", UNEVEN), ("tie", UNEVEN), ("same", UNEVEN), ("logit", [1]), ("logit", [])):
        name = given(f"regression {form} {sizes} {outputs}", sizes, task="regression", form=form, inner=inner)
        case("MeanSquaredError", name, **many)
        case("MeanSquaredError", name, squared=False, **many)
        case("MeanAbsoluteError", name, **many)
        if outputs == 1:
            case("MeanAbsolutePercentageError", name)
        if sizes:
            case("PearsonCorrCoef", name, **many)
            case("SpearmanCorrCoef", name, **many)
        for multioutput in ("uniform_average", "raw_values", "variance_weighted"):
            if outputs > 1 and not sizes:
                continue
            if form == "same" and multioutput == "variance_weighted":
                continue
            case("ExplainedVariance", name, multioutput=multioutput, **many)
            if outputs == 1 or len(sizes) > 1:
                case("R2Score", name, multioutput=multioutput, **many)
                case("R2Score", name, multioutput=multioutput, adjusted=2, **many)
name = given("regression images", task="regression", form="logit", inner=[2, 2])
case("MeanSquaredError", name)
case("MeanAbsoluteError", name)
for form, sizes in (("positive", UNEVEN), ("tie", UNEVEN), ("positive", [])):
    name = given(f"rows {form} {sizes}", sizes, task="rows", form=form, inner=[4])
    for reduction in ("mean", "sum"):
        if form == "positive" and (sizes or reduction == "mean"):
            case("CosineSimilarity", name, reduction=reduction)
        if form == "positive":
            case("KLDivergence", name, reduction=reduction)
name = given("rows log", task="rows", form="log", inner=[4])
case("KLDivergence", name, log_prob=True)
for kind in ({}, {"ignore": -100}, {"ignore": 2}, {"sizes": []}):
    case("Perplexity", given(f"tokens {kind}", task="tokens", form="logit", classes=6, **kind))
texts = given("texts", task="texts")
no_texts = given("no texts", task="texts", sizes=[])
for name in (texts, no_texts):
    case("BLEUScore", name)
    case("BLEUScore", name, n_gram=2)
    case("BLEUScore", name, smooth=True)
    case("BLEUScore", name, n_gram=3, weights=[0.5, 0.3, 0.2])
    for options in ({}, {"reduction": "sum"}, {"substitution_cost": 2}, {"substitution_cost": 0}):
        case("EditDistance", name, **options)
for sizes in (UNEVEN, [3], []):
    name = given(f"values {sizes}", sizes, task="values", form="logit", inner=[2])
    for metric in ("MeanMetric", "SumMetric", "MinMetric", "MaxMetric", "RunningMean", "RunningSum"):
        case(metric, name)
    case("MeanMetric", name, weighted=True)
    case("RunningMean", name, window=2)
    case("RunningSum", name, window=3)

lines = ",\n".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in CASES)
inputs = ",\n".join(f"{json.dumps(name)}:{json.dumps(kind, separators=(',', ':'))}" for name, kind in INPUTS.items())
path = pathlib.Path(__file__).with_name("references.json")
path.write_text(f'{{"inputs":{{\n{inputs}}},\n"cases":[\n{lines}]}}\n')
print(f"{path}: {len(CASES)} cases, {path.stat().st_size} bytes")
