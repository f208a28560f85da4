"""The steps of a module as functions of tensors: weights, buffers, a batch and numbers go in, and all that a step gives comes out."""

import contextlib
import dataclasses

import torch

from levin_train import metric_objects, torch_patches
from levin_train.errors import line_of, refuse
from levin_train.recording import NUMBERS, Recorder, call_step, outputs_of, stand_in_class
from levin_train.watching import computed_attributes, python_state, refuse_changes, sources_of

STEPS = ("training_step", "validation_step", "test_step", "predict_step")
PRECISIONS = {"32-true": None, "bf16-mixed": torch.bfloat16, "16-mixed": torch.bfloat16}  # on a CPU levin too computes 16-mixed so


@dataclasses.dataclass
class Weights:
    """Parameters and buffers by name, each tensor once; `aliases` has the other names of tied ones."""

    parameters: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    aliases: dict[str, str]
    saved: set[str]  # names in the state_dict

    @staticmethod
    def of(module):
        found, aliases = [], {}
        for named in (module.named_parameters, module.named_buffers):
            first, tensors = {}, {}
            for name, tensor in named(remove_duplicate=False):
                if first.setdefault(id(tensor), name) == name:
                    tensors[name] = tensor
                else:
                    aliases[name] = first[id(tensor)]
            found.append(tensors)
        return Weights(*found, aliases, set(module.state_dict().keys()))


@contextlib.contextmanager
def random_state(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


class Step:
    """One entry of a package. `run()` is the step as a function of tensors."""

    def __init__(self, name, module, function, layout, precision, source=None):
        self.name = name
        self.training = name == "training_step"
        self.layout = layout
        self._module = module
        self._function = function
        self.precision = precision
        self._source = source or function
        self.weights = Weights.of(module)
        self._spares = metric_objects.spares(module)
        self.gradients = []  # names of parameters that get one
        self.buffers = []  # names of buffers, and of parameters without gradient, that the step changes
        self._written = []  # positions of the batch's tensors that the step changes

    def run(self, recorder, parameters, buffers, tensors, changed=None):
        """Gives the outputs and their descriptions. `parameters` and `buffers` are by name; neither they nor the batch are changed.
        `changed`: takes what the step changes, names of weights and positions in the batch, and everything is copied before."""
        initial = {**parameters, **buffers}
        copied = set(buffers) | (set(parameters) if changed is not None else set(self.buffers))
        state = {name: tensor.detach().clone().requires_grad_(tensor.requires_grad) if name in copied else tensor
                 for name, tensor in initial.items()}
        parameters = {name: state[name] for name in parameters}
        tensors = [tensor.clone() if changed is not None or position in self._written else tensor
                   for position, tensor in enumerate(tensors)]
        with self._as_recorded(recorder, state), torch.set_grad_enabled(self.training):
            with self._autocast(), torch.compiler.set_stance("force_eager"), recorder:
                result = call_step(self._function, self._module, self.layout.rebuild(tensors), recorder)
            now = {name: self._module.get_buffer(name) if name in buffers else state[name] for name in copied}
        loss, extras = outputs_of(result, self.training, self.where)
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
            changed += [name for name in state if now[name] is not state[name] or now[name]._version > 0
                        or not torch.equal(now[name], initial[name])]
            changed += [position for position, tensor in enumerate(tensors) if tensor._version > 0]
            self._check_changed(changed, now, initial)
        for name in self.buffers:
            described.append(({"kind": "buffer", "name": name}, now[name].detach()))
        for name, gradient in gradients.items():
            described.append(({"kind": "gradient", "name": name}, gradient))
        return [output for _, output in described], [description for description, _ in described]

    def probe(self, tensors):
        """Runs the step unchanged, to find which parameters get a gradient and which buffers change. Gives the recorder."""
        recorder = self.recorder()
        before, changed = python_state(self._module, self._source), []
        with random_state(1):
            _, described = self.run(recorder, self.weights.parameters, self.weights.buffers, tensors, changed)
        refuse_changes(before, python_state(self._module, self._source), self.where, recorder.assigned)
        self.gradients = [entry["name"] for entry in described if entry["kind"] == "gradient"]
        self.buffers = [name for name in changed if isinstance(name, str)]
        self._written = [position for position in changed if isinstance(position, int)]
        return recorder

    def _check_changed(self, changed, now, initial):
        for name in changed:
            if name in self.weights.parameters and initial[name].requires_grad:
                refuse(f"the step changes the parameter {name}, which its optimizer changes too",
                       "Freeze it (requires_grad_(False)) if the step alone is to change it, or do it in C++ in on_train_batch_end",
                       self.where)
            if name in initial and (now[name].shape != initial[name].shape or now[name].dtype != initial[name].dtype):
                refuse(f"the step gives the buffer {name} another shape or type: {list(now[name].shape)} instead of "
                       f"{list(initial[name].shape)}",
                       "Give it its last shape in __init__", self.where)
            if name in initial and self.name == "function":
                refuse(f"the function changes {name}, which a package of a function does not keep", "Return the value", self.where)

    def changes(self):
        """Names of the weights and of the batch's tensors that the step changes."""
        return {*self.buffers, *(self.layout.names[position] for position in self._written)}

    @property
    def where(self):
        """Where the user has written it."""
        return line_of(self._source)

    def attribute_of(self, tensor):
        """The attribute of the module that a tensor is, as "self.name"."""
        for prefix, part in self._module.named_modules():
            for name, value in vars(part).items():
                inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
                if not name.startswith("_") and any(value is tensor for value in inner):
                    return f"self.{prefix}.{name}".replace("..", ".")
        return ""

    def recorder(self, decisions=None, numbers=None):
        return Recorder(numbers or {name: torch.tensor(0) for name in NUMBERS}, decisions)

    def _gradients_of(self, loss, recorder, parameters):
        if not self.training:
            return {}
        wanted = {name: parameters[name] for name in (self.gradients or parameters) if parameters[name].requires_grad}
        if loss.grad_fn is None:
            refuse("the loss depends on no parameter that requires a gradient", "Check detach() and no_grad() in the step",
                   self.where)
        found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
        gradients = {name: gradient for name, gradient in zip(wanted, found) if gradient is not None}
        for name, gradient in gradients.items():
            if gradient.layout != torch.strided:
                refuse(f"the gradient of {name} is sparse", "Make the embedding with sparse=False", self.where)
        return gradients

    def _autocast(self):
        dtype = PRECISIONS[self.precision]
        return torch.autocast("cpu", dtype=dtype) if dtype else contextlib.nullcontext()

    @contextlib.contextmanager
    def _as_recorded(self, recorder, state):
        module = self._module
        modes = {part: part.training for part in module.modules()}
        classes = {part: type(part) for part in module.modules()
                   if hasattr(type(part), "configure_optimizers") and hasattr(type(part), "log")}
        names = {part: name for name, part in module.named_modules()}
        computed = [(part, name, vars(part)[name]) for part in module.modules() for name in computed_attributes(part) if name in vars(part)]
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch_patches.weights(module, state))
            stack.enter_context(metric_objects.recorded(module, self._spares))
            stack.enter_context(_users_builtins(module, self._source))
            if not self.training:
                module.eval()
            for part, part_class in classes.items():
                part.__class__ = stand_in_class(part_class, recorder, self.training, names[part])
            try:
                yield
            finally:
                for part, part_class in classes.items():
                    part.__class__ = part_class
                for part, mode in modes.items():
                    part.training = mode
                for part, name, value in computed:
                    vars(part)[name] = value


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
    sources = [vars(source) for source in sources_of(module, function)]
    added = [(source, name) for source in sources for name in replaced if name not in source]
    for source, name in added:
        source[name] = replaced[name]
    try:
        yield
    finally:
        for source, name in added:
            del source[name]
