#!/usr/bin/env python3
"""Writes scheduler_reference.json, the learning rates that PyTorch's own schedulers give, and optimizer_reference.json, the weights
that its optimizers come to. Run it with PyTorch 2.13 installed:

    python3 tests/optim/make_reference.py
"""
import json
import math
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler

STEPS = 64
OPTIMIZER_STEPS = 40
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


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al. 2023, which PyTorch lacks."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = -parameter.grad if group["maximize"] else parameter.grad
                state = self.state[parameter]
                momentum = state.setdefault("exp_avg", torch.zeros_like(parameter))
                update = torch.sign(beta1 * momentum + (1 - beta1) * gradient)
                parameter.sub_(group["lr"] * (update + group["weight_decay"] * parameter))
                state["exp_avg"] = beta2 * momentum + (1 - beta2) * gradient


def optimizer_parameters(kind):
    """Matrices first, which are all that Muon takes. Weights count up from -1 by 1/8, each tensor from where the last has ended."""
    sizes = [(3, 4), (6, 2)] + ([] if kind == "Muon" else [(5,), (), (2, 2, 3)])
    parameters, first = [], 0
    for size in sizes:
        count = math.prod(size)
        values = (torch.arange(first, first + count, dtype=torch.float64) % 17) / 8 - 1
        parameters.append(torch.nn.Parameter(values.float().reshape(size)))
        first += count
    return parameters


def optimizer_gradient(parameter, number, step):
    """Of the parameter of that number. The second has none in every third step."""
    if number == 1 and step % 3 == 2:
        return None
    index = torch.arange(parameter.numel(), dtype=torch.float64)
    return torch.sin(1.3 * index + 0.9 * step + number).float().reshape(parameter.shape)


def numbers(tensor):
    return [float(f"{number:.9g}") for number in tensor.detach().flatten().tolist()]


def optimizer_case(kind, **options):
    parameters = optimizer_parameters(kind)
    optimizer = (Lion if kind == "Lion" else getattr(torch.optim, kind))(parameters, **options)
    case = {"optimizer": kind, "options": options, "weights": {}}
    for step in range(OPTIMIZER_STEPS):
        if step == OPTIMIZER_STEPS // 2:
            optimizer.param_groups[0]["lr"] *= 0.5
        for number, parameter in enumerate(parameters):
            parameter.grad = optimizer_gradient(parameter, number, step)
        optimizer.step()
        if step in (0, OPTIMIZER_STEPS - 1):
            case["weights"][str(step)] = [numbers(parameter) for parameter in parameters]
    case["state"] = [
        {name: numbers(value) for name, value in optimizer.state[parameter].items()}
        for parameter in parameters
    ]
    return case


def optimizer_cases():
    for kind in ("NAdam", "RAdam"):
        yield optimizer_case(kind)
        yield optimizer_case(kind, lr=0.02, betas=[0.8, 0.95], eps=1e-4, weight_decay=0.1)
        yield optimizer_case(kind, lr=0.02, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)
    yield optimizer_case("NAdam", lr=0.05, momentum_decay=0.1)
    yield optimizer_case("RAdam", lr=0.05, betas=[0.5, 0.7])
    yield optimizer_case("Adamax")
    yield optimizer_case("Adamax", lr=0.02, betas=[0.7, 0.9], eps=1e-3, weight_decay=0.2)
    yield optimizer_case("Adamax", lr=0.02, maximize=True)
    yield optimizer_case("Adadelta")
    yield optimizer_case("Adadelta", lr=5.0, rho=0.5, eps=1e-3, weight_decay=0.1)
    yield optimizer_case("Adadelta", lr=2.0, maximize=True)
    yield optimizer_case("ASGD")
    yield optimizer_case("ASGD", lr=0.05, lambd=0.1, alpha=0.5, t0=10.0, weight_decay=0.1)
    yield optimizer_case("ASGD", lr=0.05, t0=0.0, maximize=True)
    yield optimizer_case("Rprop")
    yield optimizer_case("Rprop", lr=0.02, etas=[0.3, 1.5], step_sizes=[0.001, 0.05])
    yield optimizer_case("Rprop", lr=0.001, maximize=True)
    yield optimizer_case("Adafactor")
    yield optimizer_case("Adafactor", lr=0.3, beta2_decay=-0.5, eps=[1e-4, 0.01], d=2.0, weight_decay=0.1)
    yield optimizer_case("Adafactor", lr=0.1, eps=[None, 0.1], maximize=True)
    yield optimizer_case("Muon")
    yield optimizer_case("Muon", lr=0.02, weight_decay=0.3, momentum=0.5, nesterov=False, ns_steps=3)
    yield optimizer_case("Muon", lr=0.02, ns_coefficients=[2.0, -1.5, 0.5], eps=1e-3, adjust_lr_fn="match_rms_adamw")
    yield optimizer_case("Lion")
    yield optimizer_case("Lion", lr=0.01, betas=[0.7, 0.9], weight_decay=0.5)
    yield optimizer_case("Lion", lr=0.01, maximize=True)


def write(name, cases):
    target = pathlib.Path(__file__).with_name(name)
    document = {"torch": torch.__version__, "cases": list(cases)}
    rows = ",\n".join(json.dumps(case, separators=(",", ":"), allow_nan=False) for case in document["cases"])
    target.write_text('{"torch":%s,"cases":[\n%s\n]}\n' % (json.dumps(document["torch"]), rows))


def main():
    write("scheduler_reference.json", cases())
    write("optimizer_reference.json", optimizer_cases())


if __name__ == "__main__":
    main()
