"""The steps of a module as functions of tensors: weights, buffers, a batch and numbers go in, and all that a step gives comes out."""

import contextlib
import dataclasses
import sys

import torch
from torch.nn.utils import stateless

from levin import metrics
from levin.errors import ExportError, line_of, refuse
from levin.recording import NUMBERS, Recorder, call_step, changed_state, outputs_of, python_state, stand_in_class

HOOKS = ("setup", "configure_model", "on_fit_start", "on_fit_end", "on_train_start", "on_train_end", "on_train_epoch_start",
         "on_train_epoch_end", "on_train_batch_start", "on_train_batch_end", "on_validation_start", "on_validation_end",
         "on_validation_epoch_start", "on_validation_epoch_end", "on_validation_batch_start", "on_validation_batch_end",
         "on_test_start", "on_test_end", "on_test_epoch_start", "on_test_epoch_end", "on_test_batch_start", "on_test_batch_end",
         "on_predict_start", "on_predict_end", "on_predict_epoch_start", "on_predict_epoch_end", "on_predict_batch_start",
         "on_predict_batch_end", "on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_before_zero_grad",
         "optimizer_step", "optimizer_zero_grad", "backward", "configure_gradient_clipping", "lr_scheduler_step",
         "on_save_checkpoint", "on_load_checkpoint", "transfer_batch_to_device", "on_before_batch_transfer",
         "on_after_batch_transfer", "configure_callbacks")
STEPS = ("training_step", "validation_step", "test_step", "predict_step")
PRECISIONS = {"32-true": None, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


@dataclasses.dataclass
class Weights:
    """Parameters and buffers by name, each tensor once; `aliases` has the other names of tied ones."""

    parameters: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    aliases: dict[str, str]
    saved: set[str]  # names in the state_dict

    @staticmethod
    def of(module):
        parameters, aliases, seen = {}, {}, {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if id(parameter) in seen:
                aliases[name] = seen[id(parameter)]
            else:
                seen[id(parameter)] = name
                parameters[name] = parameter
        return Weights(parameters, dict(module.named_buffers()), aliases, set(module.state_dict().keys()))


@contextlib.contextmanager
def random_state(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


class Step:
    """One entry of a package. `run()` is the step as a function of tensors."""

    def __init__(self, name, module, function, layout, precision):
        self.name = name
        self.training = name == "training_step"
        self.layout = layout
        self._module = module
        self._function = function
        self._precision = precision
        self.weights = Weights.of(module)
        self.gradients = []  # names of parameters that get one
        self.buffers = []  # names of buffers that the step changes

    def run(self, recorder, parameters, buffers, tensors, changed=None):
        """Gives the outputs and their descriptions. `parameters` and `buffers` are by name; buffers are not changed. `changed`: takes the
        names of those that the step gives other values."""
        initial, buffers = buffers, {name: buffer.clone() for name, buffer in buffers.items()}
        with self._as_recorded(recorder, {**parameters, **buffers}), torch.set_grad_enabled(self.training):
            with self._autocast(), recorder:
                result = call_step(self._function, self._module, self.layout.rebuild(tensors), recorder)
            now = {name: self._module.get_buffer(name) for name in buffers}
        loss, extras = outputs_of(result, self.training, self._function)
        gradients = self._gradients_of(loss, recorder, parameters)
        described = []
        if loss is not None:
            described.append(({"kind": "loss"}, loss.detach().reshape(())))
        for name, (value, options, weight, updated) in recorder.logs.items():
            if updated is not None:
                metric = {"attribute": updated.name, "class_path": updated.class_path, "init_args": updated.init_args}
                for position, tensor in enumerate(updated.inputs):
                    described.append(({"kind": "metric", "name": name, "options": options, "metric": metric, "input": position},
                                      tensor.detach()))
            else:
                described.append(({"kind": "log", "name": name, "options": options}, value.reshape(())))
            if weight is not None:
                described.append(({"kind": "weight", "name": name}, weight))
        for name, tensor in extras:
            described.append(({"kind": "extra", "name": name}, tensor.detach()))
        for decision, condition in zip(recorder.decisions, recorder.conditions):
            described.append(({"kind": "condition", "taken": decision.taken, "where": decision.where}, condition))
        if changed is not None:
            changed += [name for name in buffers if now[name] is not buffers[name] or not torch.equal(now[name], initial[name])]
        for name in self.buffers:
            described.append(({"kind": "buffer", "name": name}, now[name].detach()))
        for name, gradient in gradients.items():
            described.append(({"kind": "gradient", "name": name}, gradient))
        return [output for _, output in described], [description for description, _ in described]

    def probe(self, tensors):
        """Runs the step as it is, to find which parameters get a gradient and which buffers change. Gives the recorder."""
        recorder = self.recorder(tensors)
        parameters = {name: parameter.detach().clone().requires_grad_(parameter.requires_grad)
                      for name, parameter in self.weights.parameters.items()}
        before, changed = python_state(self._module), []
        with random_state(1):
            _, described = self.run(recorder, parameters, self.weights.buffers, tensors, changed)
        changed_state(before, python_state(self._module), self._function)
        self.gradients = [entry["name"] for entry in described if entry["kind"] == "gradient"]
        self.buffers = changed
        return recorder

    def recorder(self, tensors, decisions=None, numbers=None):
        numbers = numbers or {name: torch.tensor(0) for name in NUMBERS}
        batch_size = next((tensor.shape[0] for tensor in tensors if tensor.dim() > 0), 1)
        return Recorder(numbers, batch_size, decisions)

    def _gradients_of(self, loss, recorder, parameters):
        if not self.training:
            return {}
        wanted = {name: parameters[name] for name in (self.gradients or parameters) if parameters[name].requires_grad}
        if loss.grad_fn is None:
            refuse("the loss depends on no parameter that requires a gradient", "Check detach() and no_grad() in the step",
                   line_of(self._function))
        found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
        return {name: gradient for name, gradient in zip(wanted, found) if gradient is not None}

    def _autocast(self):
        dtype = PRECISIONS[self._precision]
        return torch.autocast("cpu", dtype=dtype) if dtype else contextlib.nullcontext()

    @contextlib.contextmanager
    def _as_recorded(self, recorder, state):
        module = self._module
        module_class, modes = module.__class__, {part: part.training for part in module.modules()}
        is_lightning = hasattr(module_class, "configure_optimizers") and hasattr(module_class, "log")
        with contextlib.ExitStack() as stack:
            stack.enter_context(stateless._reparametrize_module(module, state, tie_weights=True))
            stack.enter_context(metrics.recorded(module))
            stack.enter_context(_users_builtins(module, self._function))
            if not self.training:
                module.eval()
            if is_lightning:
                module.__class__ = stand_in_class(module_class, recorder, self.training)
            try:
                yield
            finally:
                module.__class__ = module_class
                for part, mode in modes.items():
                    part.training = mode


@contextlib.contextmanager
def _users_builtins(module, function):
    """len(), min() and max() of the user's sources take tensors as torch does: with them a step stays one for all batches."""
    def length(value):
        return value.shape[0] if isinstance(value, torch.Tensor) and value.dim() > 0 else len(value)

    def extreme(name, of_two):
        builtin = min if name == "min" else max

        def chosen(*values, **options):
            if len(values) > 1 and any(isinstance(value, torch.Tensor) and value.dim() == 0 for value in values):
                tensors = [torch.as_tensor(value) for value in values]
                result = tensors[0]
                for tensor in tensors[1:]:
                    result = of_two(*torch.broadcast_tensors(*(part.to(torch.promote_types(result.dtype, tensor.dtype))
                                                               for part in (result, tensor))))
                return result
            return builtin(*values, **options)

        return chosen

    replaced = {"len": length, "min": extreme("min", torch.minimum), "max": extreme("max", torch.maximum)}
    names = {type(part).__module__ for part in module.modules()} | {getattr(function, "__module__", None)}
    sources = [vars(sys.modules[name]) for name in names
               if name in sys.modules and name.split(".")[0] not in ("torch", "lightning", "pytorch_lightning", "torchmetrics")]
    added = [(source, name) for source in sources for name in replaced if name not in source]
    for source, name in added:
        source[name] = replaced[name]
    try:
        yield
    finally:
        for source, name in added:
            del source[name]


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
    """The functions that become entries, by name. Raises ExportError for what a package cannot hold."""
    if loss is not None:
        return _loss_steps(module, loss)
    if not hasattr(module, "training_step"):
        raise ExportError(f"{type(module).__name__} has no training_step. Give export() a LightningModule, or a loss function: "
                          "levin.export(module, batch, path, loss=torch.nn.functional.cross_entropy).")
    if not getattr(module, "automatic_optimization", True):
        refuse("the module has automatic_optimization = False",
               "Manual optimization cannot be exported: write this training_step in C++, with levin::CompiledFunction for its parts",
               line_of(type(module).training_step))
    found = {}
    for name in HOOKS + STEPS:
        function = getattr(type(module), name, None)
        if function is None or function.__module__.split(".")[0] in ("lightning", "pytorch_lightning") or name in without:
            continue
        if name in STEPS:
            found[name] = function
        else:
            refuse(f"{type(module).__name__} has the hook {name}(), which a package cannot run",
                   f'Write it in C++, in a class below levin::ExportedModule, and say without=["{name}"]', line_of(function))
    return found
