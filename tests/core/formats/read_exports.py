"""Loads what python_test.cpp has exported, checks it, and trains on from the checkpoints with Lightning."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "data"))
import torch
from make_torch_files import FOLDER, OPTIMIZERS, Regression, loader, state_dict, trainer
from safetensors.torch import load_file

found = torch.load(FOLDER / "all.pt", weights_only=True)
expected = state_dict()
assert list(found) == list(expected), list(found)
for name, tensor in expected.items():
    there = found[name]
    assert there.dtype == tensor.dtype and there.shape == tensor.shape and there.stride() == tensor.stride(), name
    kind = torch.complex128 if tensor.dtype.is_complex else torch.float64
    assert torch.equal(there.to(kind), tensor.detach().to(kind)), name
assert found["row"].untyped_storage().data_ptr() == found["transposed"].untyped_storage().data_ptr()

for optimizer in OPTIMIZERS:
    checkpoint = torch.load(FOLDER / f"{optimizer}.ckpt", weights_only=True)
    weights = torch.load(FOLDER / f"{optimizer}.pt", weights_only=True)
    plain = load_file(FOLDER / f"{optimizer}.safetensors")
    assert list(weights) == list(checkpoint["state_dict"]) and sorted(weights) == sorted(plain), list(weights)
    for name, tensor in weights.items():
        assert torch.equal(tensor, plain[name]) and torch.equal(tensor, checkpoint["state_dict"][name]), name
    assert checkpoint["epoch"] == 2 and checkpoint["global_step"] == 8, (checkpoint["epoch"], checkpoint["global_step"])
    module = Regression(optimizer=optimizer)
    run = trainer(max_epochs=4)
    run.fit(module, loader(), ckpt_path=FOLDER / f"{optimizer}.ckpt")
    assert run.global_step == 16 and run.current_epoch == 4, (run.global_step, run.current_epoch)
    torch.save(module.state_dict(), FOLDER / f"{optimizer}_later.pt")
