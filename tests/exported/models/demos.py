"""Lightning's own demos."""

import torch

from cases import case


@case("lightning", lambda _: torch.randn(8, 32))
def boring_model():
    from lightning.pytorch.demos.boring_classes import BoringModel

    return BoringModel()


@case("lightning", lambda _: torch.randn(8, 32))
def manual_optimization():
    from lightning.pytorch.demos.boring_classes import ManualOptimBoringModel

    return ManualOptimBoringModel()
