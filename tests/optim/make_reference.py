#!/usr/bin/env python3
"""Writes scheduler_reference.json, the learning rates that PyTorch's own schedulers give, and optimizer_reference.json, the weights
of its optimizers. Run it with PyTorch 2.13 installed:

    python3 tests/optim/make_reference.py
"""
import json
import math
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler, swa_utils

STEPS = 64
STATE_STEP = 23
OPTIMIZER_STEPS = 40
warnings.filterwarnings("ignore")


def make_optimizer(name, lrs):
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in lrs]
    kwargs = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    return getattr(torch.optim, name)(groups, lr=0.1, **kwargs)


def function_of(expression):
    """levin's expressions have Python's meaning."""
    names = {"min": min, "max": max, "sqrt": math.sqrt, "exp": math.exp, "cos": math.cos, "pi": math.pi}
    return lambda step: eval(str(expression), {"__builtins__": {}}, names | {"epoch": step, "step": step})


def warmup_cosine(optimizer, warmup_steps=0, total_steps=None, start_factor=0.0, min_lr=0.0, min_lr_ratio=0.0):
    """A linear warmup and half a cosine, which PyTorch has no class for."""

    def of_group(base):
        lowest = min_lr_ratio * base if min_lr_ratio else min_lr

        def factor(step):
            if step < warmup_steps:
                return start_factor + (1 - start_factor) * step / warmup_steps
            part = min(1, (step - warmup_steps) / (total_steps - warmup_steps))
            return (lowest + (base - lowest) * (1 + math.cos(math.pi * part)) / 2) / base

        return factor

    return lr_scheduler.LambdaLR(optimizer, [of_group(group["lr"]) for group in optimizer.param_groups])


def make_scheduler(optimizer, spec):
    args = dict(spec["init_args"])
    if "schedulers" in args:
        args["schedulers"] = [make_scheduler(optimizer, member) for member in args["schedulers"]]
    if "lr_lambda" in args:
        given = args["lr_lambda"]
        args["lr_lambda"] = [function_of(text) for text in given] if isinstance(given, list) else function_of(given)
    if spec["class_path"] == "WarmupCosineLR":
        return warmup_cosine(optimizer, **args)
    if spec["class_path"] == "ChainedScheduler":
        return lr_scheduler.ChainedScheduler(**args)
    module = swa_utils if spec["class_path"] == "SWALR" else lr_scheduler
    return getattr(module, spec["class_path"])(optimizer, **args)


def momentum_of(optimizer):
    return [group["betas"][0] if "betas" in group else group.get("momentum", 0.0) for group in optimizer.param_groups]


def record(optimizer, lrs, specs, metrics=None):
    """Builds the schedulers of `specs` on one optimizer, and steps all of them STEPS times."""
    case = {"optimizer": optimizer, "lrs": lrs, "schedulers": specs}
    instance = make_optimizer(optimizer, lrs)
    schedulers = [make_scheduler(instance, spec) for spec in specs]
    rows = [{"lr": [group["lr"] for group in instance.param_groups], "momentum": momentum_of(instance)}]
    for step in range(STEPS):
        if step == STATE_STEP and all(spec["class_path"] in ("CyclicLR", "SWALR", "MultiplicativeLR") for spec in specs):
            case["states"] = [state_of(scheduler) for scheduler in schedulers]
        instance.step()
        for scheduler in schedulers:
            scheduler.step(metrics[step]) if metrics else scheduler.step()
        assert schedulers[-1].get_last_lr() == [group["lr"] for group in instance.param_groups]
        rows.append({"lr": [group["lr"] for group in instance.param_groups], "momentum": momentum_of(instance)})
    if metrics:
        case["metrics"] = metrics
    case["rows"] = rows
    return case


def state_of(scheduler):
    """As a checkpoint has it; PyTorch's is the live object."""
    return json.loads(json.dumps(scheduler.state_dict()))


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
    yield from newer_cases(two, warm)
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


def newer_cases(two, warm):
    """Schedules of functions, of cycles, and of several at once."""
    for expression in (
        "0.95 ** epoch",
        "0.1 ** (epoch // 30)",
        ["1 / (1 + step)", "-2 ** 2 % 5 + 0.5e0 ** -1 ** 2 - step % 7 / 9."],
        "max(0.1, min(1, (step + 1) / 10, 2 - step / 40)) * (1.5 + cos(pi * epoch / 8)) / sqrt(exp(.25))",
        0.25,
    ):
        yield record("SGD", two, [spec("LambdaLR", lr_lambda=expression)])
    yield record("SGD", two, [spec("MultiplicativeLR", lr_lambda="0.95")])
    yield record("Adam", two, [spec("MultiplicativeLR", lr_lambda=["1 - 1 / (1 + step)", "0.9 + step % 3 / 10"])])
    for optimizer in ("SGD", "Adam", "RMSprop"):
        yield record(optimizer, two, [spec("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=7)])
        yield record(
            optimizer,
            two,
            [
                spec(
                    "CyclicLR",
                    base_lr=[0.01, 0.002],
                    max_lr=[0.1, 0.05],
                    step_size_up=4,
                    step_size_down=9,
                    mode="triangular2",
                    base_momentum=[0.7, 0.6],
                    max_momentum=0.95,
                )
            ],
        )
    exp_range = spec("CyclicLR", base_lr=0.001, max_lr=0.1, step_size_up=6, mode="exp_range", gamma=0.97, cycle_momentum=False)
    yield record("Adagrad", two, [exp_range])
    yield record("SGD", two, [warm, exp_range])
    yield record("SGD", two, [exp_range, spec("ExponentialLR", gamma=0.97)])
    yield record("AdamW", two, [spec("SWALR", swa_lr=0.05)])
    yield record("SGD", two, [spec("SWALR", swa_lr=[0.02, 0.01], anneal_epochs=25, anneal_strategy="linear")])
    yield record("SGD", two, [spec("SWALR", swa_lr=0.02, anneal_epochs=0)])
    yield record("SGD", two, [spec("ExponentialLR", gamma=0.97), spec("SWALR", swa_lr=0.02, anneal_epochs=15)])
    yield record("SGD", two, [spec("WarmupCosineLR", total_steps=40)])
    yield record("AdamW", two, [spec("WarmupCosineLR", warmup_steps=10, total_steps=80, min_lr=1e-4)])
    yield record("SGD", two, [spec("WarmupCosineLR", warmup_steps=5, total_steps=50, start_factor=0.2, min_lr_ratio=0.1)])
    chain = [warm, spec("ExponentialLR", gamma=0.97), spec("MultiplicativeLR", lr_lambda="0.99")]
    sequence = spec("SequentialLR", schedulers=[warm, spec("StepLR", step_size=9)], milestones=[5])
    yield record("SGD", two, [spec("ChainedScheduler", schedulers=chain)])
    yield record("SGD", two, [spec("ChainedScheduler", schedulers=[sequence, spec("ExponentialLR", gamma=0.99)])])
    for member in (
        spec("LambdaLR", lr_lambda="0.9 ** step"),
        spec("MultiplicativeLR", lr_lambda="0.9 - step / 500"),
        spec("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=5),
        spec("SWALR", swa_lr=0.05, anneal_epochs=12),
        spec("WarmupCosineLR", warmup_steps=4, total_steps=30, start_factor=0.1),
    ):
        yield record("SGD", two, [spec("SequentialLR", schedulers=[warm, member], milestones=[3])])
        yield record("SGD", two, [spec("SequentialLR", schedulers=[member, spec("ExponentialLR", gamma=0.9)], milestones=[20])])


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


class LayerwiseOptimizer(torch.optim.Optimizer):
    """Steps by `update`, whose options are `defaults`."""

    defaults_of_class = {}

    def __init__(self, params, **options):
        super().__init__(params, self.defaults_of_class | options)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    gradient = -parameter.grad if group["maximize"] else parameter.grad
                    self.update(parameter, gradient, group, self.state[parameter])


class LAMB(LayerwiseOptimizer):
    """Algorithm 2 of You et al. 2019, with the identity as phi."""

    defaults_of_class = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.01, "maximize": False}

    def update(self, weights, gradient, group, state):
        beta1, beta2 = group["betas"]
        state["step"] = t = state.get("step", 0) + 1
        state["exp_avg"] = beta1 * state.get("exp_avg", torch.zeros_like(weights)) + (1 - beta1) * gradient
        state["exp_avg_sq"] = beta2 * state.get("exp_avg_sq", torch.zeros_like(weights)) + (1 - beta2) * gradient**2
        m = state["exp_avg"] / (1 - beta1**t)
        v = state["exp_avg_sq"] / (1 - beta2**t)
        update = m / (torch.sqrt(v) + group["eps"]) + group["weight_decay"] * weights
        sizes = weights.norm().item(), update.norm().item()
        weights -= group["lr"] * (sizes[0] / sizes[1] if min(sizes) > 0 else 1.0) * update


class LARS(LayerwiseOptimizer):
    """Algorithm 1 of You et al. 2017."""

    defaults_of_class = {"lr": 1.0, "momentum": 0.9, "weight_decay": 0.0, "trust_coefficient": 1e-3, "maximize": False}

    def update(self, weights, gradient, group, state):
        size, slope, decay = weights.norm().item(), gradient.norm().item(), group["weight_decay"]
        local = group["trust_coefficient"] * size / (slope + decay * size) if size > 0 and slope > 0 else 1.0
        velocity = group["momentum"] * state.get("momentum_buffer", torch.zeros_like(weights))
        state["momentum_buffer"] = velocity + group["lr"] * local * (gradient + decay * weights)
        weights -= state["momentum_buffer"]


def optimizer_parameters(kind):
    """Matrices first, which are all that Muon takes. Weights count up from -1 by 1/8, each tensor from where the last has ended."""
    sizes = [(3, 4), (6, 2)] + ([] if kind == "Muon" else [(5,), (2, 2, 3)] if kind == "SparseAdam" else [(5,), (), (2, 2, 3)])
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


def sparse_gradient(parameter, number, step):
    """Of two rows, which are the same one in some steps; of none in some steps of the third."""
    if number == 1 and step % 3 == 2:
        return None
    count = parameter.shape[0]
    rows = [] if number == 2 and step % 5 == 4 else [step % count, (3 * step + 1) % count]
    values = optimizer_gradient(torch.zeros(2, *parameter.shape[1:]), 0, step)[: len(rows)]
    return torch.sparse_coo_tensor(torch.tensor([rows], dtype=torch.int64), values, parameter.shape)


def numbers(tensor):
    return [float(f"{number:.9g}") for number in tensor.detach().flatten().tolist()]


def optimizer_case(kind, **options):
    parameters = optimizer_parameters(kind)
    own = {"LAMB": LAMB, "LARS": LARS, "Lion": Lion}
    optimizer = (own.get(kind) or getattr(torch.optim, kind))(parameters, **options)
    case = {"optimizer": kind, "options": options, "weights": {}}
    for step in range(OPTIMIZER_STEPS):
        if step == OPTIMIZER_STEPS // 2:
            optimizer.param_groups[0]["lr"] *= 0.5
        for number, parameter in enumerate(parameters):
            parameter.grad = (sparse_gradient if kind == "SparseAdam" else optimizer_gradient)(parameter, number, step)
        optimizer.step()
        if step in (0, OPTIMIZER_STEPS - 1):
            case["weights"][str(step)] = [numbers(parameter) for parameter in parameters]
    case["state"] = [
        {name: numbers(torch.as_tensor(value)) for name, value in optimizer.state[parameter].items()}
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
    yield optimizer_case("LAMB")
    yield optimizer_case("LAMB", lr=0.02, betas=[0.8, 0.95], eps=1e-3, weight_decay=0.2)
    yield optimizer_case("LAMB", lr=0.02, weight_decay=0.0, maximize=True)
    yield optimizer_case("LARS")
    yield optimizer_case("LARS", lr=2.0, momentum=0.5, weight_decay=0.1, trust_coefficient=0.01)
    yield optimizer_case("LARS", lr=0.5, trust_coefficient=0.02, maximize=True)
    yield optimizer_case("SparseAdam")
    yield optimizer_case("SparseAdam", lr=0.05, betas=[0.7, 0.9], eps=1e-3)
    yield optimizer_case("SparseAdam", lr=0.02, maximize=True)


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
