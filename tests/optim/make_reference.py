#!/usr/bin/env python3
"""Writes scheduler_reference.json: the learning rates that PyTorch's own schedulers give. Run it with PyTorch 2.13 installed:

    python3 tests/optim/make_reference.py
"""
import json
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler

STEPS = 64
warnings.filterwarnings("ignore")


def make_optimizer(name, lrs):
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in lrs]
    kwargs = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    return getattr(torch.optim, name)(groups, lr=0.1, **kwargs)


def make_scheduler(optimizer, spec):
    args = dict(spec["init_args"])
    if spec["class_path"] == "SequentialLR":
        args["schedulers"] = [make_scheduler(optimizer, member) for member in args["schedulers"]]
    return getattr(lr_scheduler, spec["class_path"])(optimizer, **args)


def momentum_of(optimizer):
    return [group["betas"][0] if "betas" in group else group.get("momentum", 0.0) for group in optimizer.param_groups]


def record(optimizer, lrs, specs, metrics=None):
    """Builds the schedulers of `specs` on one optimizer, and steps all of them STEPS times."""
    case = {"optimizer": optimizer, "lrs": lrs, "schedulers": specs}
    instance = make_optimizer(optimizer, lrs)
    schedulers = [make_scheduler(instance, spec) for spec in specs]
    rows = [{"lr": [group["lr"] for group in instance.param_groups], "momentum": momentum_of(instance)}]
    for step in range(STEPS):
        instance.step()
        for scheduler in schedulers:
            scheduler.step(metrics[step]) if metrics else scheduler.step()
        assert schedulers[-1].get_last_lr() == [group["lr"] for group in instance.param_groups]
        rows.append({"lr": [group["lr"] for group in instance.param_groups], "momentum": momentum_of(instance)})
    if metrics:
        case["metrics"] = metrics
    case["rows"] = rows
    return case


def spec(class_path, **init_args):
    return {"class_path": class_path, "init_args": init_args}


def plateau_metrics(kind):
    if kind == "flat":
        return [1.0] * STEPS
    if kind == "falling then flat":
        return [max(0.2, 1.0 - 0.07 * step) for step in range(STEPS)]
    if kind == "rising slowly":
        return [0.5 + 0.0009 * step for step in range(STEPS)]
    if kind == "huge":
        return [float(step % 3) if step % 5 else 1e300 for step in range(STEPS)]
    return [((step * 7919) % 101) / 101.0 - 0.5 for step in range(STEPS)]


def cases():
    two = [0.1, 0.003]
    singles = [
        spec("StepLR", step_size=7),
        spec("StepLR", step_size=1, gamma=0.9),
        spec("StepLR", step_size=30, gamma=1.5),
        spec("MultiStepLR", milestones=[5, 12, 40]),
        spec("MultiStepLR", milestones=[40, 5, 5, 0, 12], gamma=0.5),
        spec("MultiStepLR", milestones=[], gamma=0.5),
        spec("ExponentialLR", gamma=0.93),
        spec("ExponentialLR", gamma=1.01),
        spec("ConstantLR"),
        spec("ConstantLR", factor=0.25, total_iters=17),
        spec("ConstantLR", factor=0.5, total_iters=0),
        spec("LinearLR"),
        spec("LinearLR", start_factor=0.01, end_factor=0.7, total_iters=20),
        spec("LinearLR", start_factor=1.0, end_factor=0.0, total_iters=50),
        spec("PolynomialLR", total_iters=5),
        spec("PolynomialLR", total_iters=40, power=2.5),
        spec("CosineAnnealingLR", T_max=10),
        spec("CosineAnnealingLR", T_max=1, eta_min=0.001),
        spec("CosineAnnealingLR", T_max=100, eta_min=0.0005),
        spec("CosineAnnealingWarmRestarts", T_0=10),
        spec("CosineAnnealingWarmRestarts", T_0=3, T_mult=2, eta_min=0.001),
    ]
    for single in singles:
        yield record("SGD", two, [single])
    for optimizer in ("SGD", "Adam", "AdamW", "RMSprop"):
        yield record(optimizer, two, [spec("OneCycleLR", max_lr=0.5, total_steps=64)])
        yield record(
            optimizer,
            two,
            [
                spec(
                    "OneCycleLR",
                    max_lr=[0.5, 0.02],
                    epochs=10,
                    steps_per_epoch=7,
                    anneal_strategy="linear",
                    three_phase=True,
                    pct_start=0.25,
                    base_momentum=[0.8, 0.7],
                    max_momentum=0.9,
                    div_factor=10.0,
                    final_div_factor=100.0,
                )
            ],
        )
    yield record("Adagrad", two, [spec("OneCycleLR", max_lr=0.1, total_steps=80, cycle_momentum=False, pct_start=0.0)])
    yield record("SGD", two, [spec("OneCycleLR", max_lr=0.1, total_steps=64, pct_start=0.9)])
    warm = spec("LinearLR", start_factor=0.1, total_iters=5)
    # Chained: every scheduler multiplies what the others left.
    yield record("SGD", two, [warm, spec("ExponentialLR", gamma=0.97)])
    yield record("Adam", two, [spec("StepLR", step_size=4), spec("ConstantLR", total_iters=9), spec("CosineAnnealingLR", T_max=30)])
    yield record("SGD", two, [warm, spec("CosineAnnealingWarmRestarts", T_0=8)])
    sequences = [
        ([warm, spec("CosineAnnealingLR", T_max=50)], [5]),
        ([warm, spec("ExponentialLR", gamma=0.9), spec("StepLR", step_size=3)], [5, 20]),
        ([warm, spec("MultiStepLR", milestones=[0, 4, 9]), spec("ConstantLR", total_iters=3), spec("LinearLR")], [6, 22, 40]),
        ([spec("ConstantLR"), spec("CosineAnnealingWarmRestarts", T_0=5, T_mult=2)], [10]),
        ([spec("PolynomialLR", total_iters=10), spec("PolynomialLR", total_iters=30, power=2.0)], [12]),
        ([warm, spec("OneCycleLR", max_lr=0.4, total_steps=60)], [8]),
        ([spec("ExponentialLR", gamma=0.5)], []),
        ([spec("ExponentialLR", gamma=0.5), spec("StepLR", step_size=5)], [0]),
        ([spec("ExponentialLR", gamma=0.9), spec("StepLR", step_size=5), spec("LinearLR")], [7, 7]),
    ]
    for members, milestones in sequences:
        yield record("SGD", two, [spec("SequentialLR", schedulers=members, milestones=milestones)])
    plateaus = [
        (spec("ReduceLROnPlateau"), "flat"),
        (spec("ReduceLROnPlateau", patience=2, factor=0.5), "falling then flat"),
        (spec("ReduceLROnPlateau", mode="max", patience=3, threshold=0.01), "rising slowly"),
        (spec("ReduceLROnPlateau", mode="max", patience=3, threshold=0.01, threshold_mode="abs", cooldown=4), "rising slowly"),
        (spec("ReduceLROnPlateau", patience=0, threshold_mode="abs", threshold=0.05, cooldown=2, factor=0.8), "mixed"),
        (spec("ReduceLROnPlateau", mode="max", patience=1, min_lr=[0.02, 0.001], factor=0.3), "mixed"),
        (spec("ReduceLROnPlateau", patience=0, min_lr=1e-6, eps=1e-4, factor=0.5), "flat"),
        (spec("ReduceLROnPlateau", patience=1, factor=0.7), "huge"),
    ]
    for plateau, kind in plateaus:
        yield record("Adam", two, [plateau], plateau_metrics(kind))
    yield record("SGD", [0.1, 0.02, 1e-5], [spec("CosineAnnealingLR", T_max=13, eta_min=1e-4)])
    yield record("Adam", [0.01], [spec("StepLR", step_size=11, gamma=0.2)])


def main():
    target = pathlib.Path(__file__).with_name("scheduler_reference.json")
    document = {"torch": torch.__version__, "cases": list(cases())}
    rows = ",\n".join(json.dumps(case, separators=(",", ":"), allow_nan=False) for case in document["cases"])
    target.write_text('{"torch":%s,"cases":[\n%s\n]}\n' % (json.dumps(document["torch"]), rows))


if __name__ == "__main__":
    main()
