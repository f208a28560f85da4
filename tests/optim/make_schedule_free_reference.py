#!/usr/bin/env python3
"""Writes schedule_free_reference.json: what the package schedulefree comes to.

    python3 -m pip install torch schedulefree==1.4.1 && python3 tests/optim/make_schedule_free_reference.py
"""
import schedulefree
from make_reference import OPTIMIZER_STEPS, numbers, optimizer_gradient, optimizer_parameters, write


def case(kind, **options):
    # The package counts the steps of a group, also those in which a parameter has no gradient: here each has an optimizer.
    parameters = optimizer_parameters(kind)
    optimizers = [getattr(schedulefree, kind)([parameter], **options) for parameter in parameters]
    for optimizer in optimizers:
        optimizer.train()
    for step in range(OPTIMIZER_STEPS):
        for number, (parameter, optimizer) in enumerate(zip(parameters, optimizers)):
            if step == OPTIMIZER_STEPS // 2:
                optimizer.param_groups[0]["lr"] *= 0.5
            parameter.grad = optimizer_gradient(parameter, number, step)
            if parameter.grad is not None:
                optimizer.step()
    recorded = {"optimizer": kind, "options": options, "trained": [numbers(parameter) for parameter in parameters]}
    for optimizer in optimizers:
        optimizer.eval()
    recorded["evaluated"] = [numbers(parameter) for parameter in parameters]
    return recorded


write("schedule_free_reference.json", [
    case("SGDScheduleFree"),
    case("SGDScheduleFree", lr=0.3, momentum=0.6, weight_decay=0.1, warmup_steps=12),
    case("SGDScheduleFree", lr=0.2, warmup_steps=5, r=1.0, weight_lr_power=1.0),
    case("AdamWScheduleFree"),
    case("AdamWScheduleFree", lr=0.05, betas=[0.8, 0.95], eps=1e-3, weight_decay=0.2, warmup_steps=8),
    case("AdamWScheduleFree", lr=0.02, r=0.5, weight_lr_power=0.0),
])
