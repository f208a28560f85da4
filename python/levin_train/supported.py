"""What a package can hold of a module: its steps, and what it must not have besides."""

import inspect

import torch

from levin_train.errors import ExportError, line_of, refuse
from levin_train.safetensors import NAMES
from levin_train.steps import STEPS, Step, Weights

HOOKS = ("setup", "configure_model", "on_fit_start", "on_fit_end", "on_train_start", "on_train_end", "on_train_epoch_start",
         "on_train_epoch_end", "on_train_batch_start", "on_train_batch_end", "on_validation_start", "on_validation_end",
         "on_validation_epoch_start", "on_validation_epoch_end", "on_validation_batch_start", "on_validation_batch_end",
         "on_test_start", "on_test_end", "on_test_epoch_start", "on_test_epoch_end", "on_test_batch_start", "on_test_batch_end",
         "on_predict_start", "on_predict_end", "on_predict_epoch_start", "on_predict_epoch_end", "on_predict_batch_start",
         "on_predict_batch_end", "on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_before_zero_grad",
         "optimizer_step", "optimizer_zero_grad", "backward", "configure_gradient_clipping", "lr_scheduler_step",
         "on_save_checkpoint", "on_load_checkpoint", "transfer_batch_to_device", "on_before_batch_transfer",
         "on_after_batch_transfer", "configure_callbacks", "on_validation_model_eval", "on_validation_model_train",
         "on_validation_model_zero_grad", "on_test_model_eval", "on_test_model_train", "on_predict_model_eval",
         "on_predict_model_train", "configure_sharded_model")
_LIBRARIES = ("lightning", "pytorch_lightning", "torch")


def _loss_steps(module, loss):
    def split(batch):
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise ExportError("With loss=, a batch is a tuple: the inputs of the module, and last the target.")
        return batch[:-1], batch[-1]

    def step(prefix):
        def run(model, batch):
            inputs, target = split(batch)
            value = loss(model(*inputs), target)
            torch.overrides._get_current_function_mode().log(f"{prefix}_loss", value, prog_bar=True)
            return value

        return run

    return {"training_step": step("train"), "validation_step": step("val"), "test_step": step("test"),
            "predict_step": lambda model, batch: model(*split(batch)[0])}


def steps_of(module, loss, without):
    """The functions that become entries, by name, and those of them that Lightning has put in: they are left out where they do
    not fit the batch. Raises ExportError for what a package cannot hold."""
    unknown = set(without) - set(HOOKS + STEPS)
    if unknown:
        raise ExportError(f"without names {', '.join(sorted(unknown))}: no step or hook of a LightningModule.")
    if loss is not None:
        return {name: step for name, step in _loss_steps(module, loss).items() if name not in without}, ()
    if not hasattr(module, "training_step"):
        raise ExportError(f"{type(module).__name__} has no training_step. Give export() a LightningModule, or a loss function: "
                          "levin_train.export(module, batch, path, loss=torch.nn.functional.cross_entropy).")
    if not getattr(module, "automatic_optimization", True):
        refuse("the module has automatic_optimization = False",
               "Manual optimization cannot be exported: write this training_step in C++, with levin::CompiledFunction for its parts",
               line_of(type(module).training_step))
    found = {name: function for name in STEPS if name not in without and (function := _own(module, name))}
    for name in HOOKS:
        if name not in without and (function := _own(module, name)):
            refuse(f"{type(module).__name__} has the hook {name}(), which a package cannot run",
                   f'Write it in C++, in a class below levin::ExportedModule, and say without=["{name}"]', line_of(function))
    if "training_step" not in found and "training_step" not in without:
        raise ExportError(f"{type(module).__name__} does not define training_step. Say without=[\"training_step\"] to export the others.")
    if "predict_step" not in found and "predict_step" not in without and _own(module, "forward"):
        return {**found, "predict_step": type(module).predict_step}, ("predict_step",)
    return found, ()


def _own(module, name):
    function = getattr(type(module), name, None)
    return None if function is None or function.__module__.split(".")[0] in _LIBRARIES else function


def function_step(function, module, layout, precision):
    """The entry of export_function()."""
    source = type(function).forward if isinstance(function, torch.nn.Module) else function
    by_name = set(layout.names) <= set(inspect.signature(source).parameters)

    def step(_, batch):
        return function(**batch) if by_name else function(*batch.values())

    return Step("function", module, step, layout, precision, source)


def check_weights(module):
    """Raises ExportError for weights that a package cannot hold."""
    weights, memory = Weights.of(module), {}
    for name, tensor in [*weights.parameters.items(), *weights.buffers.items()]:
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise ExportError(f"{name} has no shape yet. Run the module on a batch before the export.")
        if tensor.device.type != "cpu":
            raise ExportError(f"{name} is on {tensor.device}. A package is compiled for the CPU: module.cpu() before the export.")
        if tensor.dtype not in NAMES or tensor.layout != torch.strided:
            raise ExportError(f"{name} is a tensor of {tensor.dtype} ({tensor.layout}), which a package does not take.")
        other = memory.setdefault(tensor.untyped_storage().data_ptr(), name) if tensor.numel() else name
        if other != name:
            raise ExportError(f"{name} lies in the memory of {other}, but is another tensor. Tie them: {name} = {other}.")
        for hooks in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            if getattr(tensor, hooks, None):
                raise ExportError(f"{name} has a hook on its gradient, which a package cannot run. Compute it in the step's loss.")
