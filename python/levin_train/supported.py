"""What a package can hold of a module: its steps, and what it must not have besides."""

import inspect
import os

import torch

from levin_train import hook_trials, stand_ins
from levin_train.batches import complex_advice
from levin_train.errors import ExportError, line_of, refuse
from levin_train.hooks import HOOKS, check as check_hooks, own
from levin_train.safetensors import NAMES
from levin_train.stand_ins import MANUAL
from levin_train.steps import STEPS, Step, Weights

def _loss_steps(module, loss):
    def split(batch):
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise ExportError("With loss=, a batch is a tuple: the inputs of the module, and last the target.")
        return batch[:-1], batch[-1]

    def step(prefix):
        def run(model, batch):
            inputs, target = split(batch)
            value = loss(model(*inputs), target)
            stand_ins.log(f"{prefix}_loss", value, prog_bar=True)
            return value

        return run

    return {"training_step": step("train"), "validation_step": step("val"), "test_step": step("test"),
            "predict_step": lambda model, batch: model(*split(batch)[0])}


def check_given(module, batch, path):
    """Raises ExportError for what is given to export() in place of a module, a batch and a path."""
    if isinstance(module, type):
        raise ExportError(f"export() got the class {module.__name__}. Give it an object: {module.__name__}(…), with its weights.")
    if isinstance(module, (str, os.PathLike)):
        raise ExportError(f"export() got the path '{os.fspath(module)}' in place of a module. Load it first: "
                          "module = Model.load_from_checkpoint(path).")
    if not isinstance(module, torch.nn.Module):
        raise ExportError(f"export() got a {type(module).__name__} in place of a module: an object of a class of LightningModule or nn.Module.")
    if path is None:
        raise ExportError("export() got a path and no batch. " if isinstance(batch, (str, os.PathLike)) else "export() got no path. "
                          "Call it as levin_train.export(module, batch, \"module.pt2\").")
    if isinstance(batch, (torch.utils.data.DataLoader, torch.utils.data.Dataset)) or hasattr(batch, "train_dataloader"):
        made = "next(iter(loader))" if isinstance(batch, torch.utils.data.DataLoader) else "next(iter(DataLoader(dataset, batch_size=32)))"
        raise ExportError(f"export() got a {type(batch).__name__} in place of a batch. Give it one: {made}.")


def check_without(without):
    """Raises ExportError for names that are no step or hook."""
    unknown = set(without) - set(HOOKS + STEPS)
    if unknown:
        raise ExportError(f"without names {', '.join(sorted(unknown))}: no step or hook of a LightningModule.")


def steps_of(module, loss, without, batch, trainer):
    """The functions that become entries, by name; those of them that Lightning has put in, which are left out where they do not fit
    the batch; and notes on what is left out. Raises ExportError for what a package cannot hold. `batch`, and `trainer`, values of
    self.trainer: with which hooks are tried."""
    if loss is not None:
        return {name: step for name, step in _loss_steps(module, loss).items() if name not in without}, (), []
    if not hasattr(module, "training_step"):
        raise ExportError(f"{type(module).__name__} has no training_step. Give export() a LightningModule, or a loss function: "
                          "levin_train.export(module, batch, path, loss=torch.nn.functional.cross_entropy).")
    check_optimization(module)
    found = {name: function for name in STEPS if name not in without and (function := own(module, name))}
    notes = check_hooks(module, without, lambda names: hook_trials.changes(module, names, batch, trainer, without))
    if "training_step" not in found and "training_step" not in without:
        raise ExportError(f"{type(module).__name__} does not define training_step. Say without=[\"training_step\"] to export the others.")
    if "predict_step" not in found and "predict_step" not in without and own(module, "forward"):
        return {**found, "predict_step": type(module).predict_step}, ("predict_step",), notes
    return found, (), notes


def check_optimization(module):
    """Raises ExportError for a module that optimizes by hand."""
    if not getattr(module, "automatic_optimization", True):
        refuse("the module has automatic_optimization = False", MANUAL, line_of(type(module).training_step))


def function_step(function, module, layout, precision):
    """The entry of export_function()."""
    source = type(function).forward if isinstance(function, torch.nn.Module) else function
    by_name = set(layout.names) <= set(inspect.signature(source).parameters)

    def step(_, batch):
        return function(**batch) if by_name else function(*batch.values())

    return Step("function", module, step, layout, precision, source)


def check_weights(module):
    """Raises ExportError for weights that a package cannot hold, and parts that cannot be recorded."""
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise ExportError(f"{name or 'The module'} is what torch.jit has made of a module: TorchScript fixes the sizes of a batch when it is "
                              "recorded. Put in the module itself, without torch.jit.")
    weights, memory = Weights.of(module), {}
    for name, tensor in [*weights.parameters.items(), *weights.buffers.items()]:
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise ExportError(f"{name} has no shape yet. Run the module on a batch before the export.")
        if tensor.device.type != "cpu":
            raise ExportError(f"{name} is on {tensor.device}. A package is compiled for the CPU: module.cpu() before the export.")
        if tensor.dtype not in NAMES or tensor.layout != torch.strided:
            raise ExportError(f"{name} is a tensor of {tensor.dtype} ({tensor.layout}), which a package does not take." + complex_advice(tensor))
        other = memory.setdefault(tensor.untyped_storage().data_ptr(), name) if tensor.numel() else name
        if other != name:
            raise ExportError(f"{name} lies in the memory of {other}, but is another tensor. Tie them: {name} = {other}.")
        for hooks in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            if found := getattr(tensor, hooks, None):
                refuse(f"{name} has a hook on its gradient, which a package cannot run", "Compute it in the step's loss", line_of(next(iter(found.values()))))
