"""The steps of a module as functions of tensors: weights, buffers, a batch and numbers go in, and all that a step gives comes out."""

import contextlib
import dataclasses
import io
import warnings

import torch

from levin_train import checkpointing, counters, courses, epoch_logs, hooks, metric_objects, side_effects, torch_patches, users_code
from levin_train.errors import AnotherSource, ExportError, line_of, refuse
from levin_train.failures import refuse_failure
from levin_train.origins import BATCH, WEIGHTS, Kept, Origins
from levin_train.recording import Recorder
from levin_train.stand_ins import NUMBERS, call_step, logging_to, stand_in_class
from levin_train.step_outputs import no_tensors_of, outputs_of
from levin_train.watching import State, attributes_now, computed_attributes, line_of_write, preserved, refuse_change, refuse_kept

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

    def __init__(self, name, module, function, layout, precision, source=None, trainer=None, without=()):
        self.name = name
        self.training = name == "training_step"
        self.layout = layout
        self.function = function
        self.precision = precision
        self.source = source or function
        self.weights = Weights.of(module)
        self.buffers = []  # names of buffers, and of parameters without gradient, that the step changes
        self.also_written = []  # such of them as the example leaves at the values that they had
        self.courses = []
        self.optional = set()  # names that are logged in a branch which only logs
        self.left_out = set()  # names that are not logged by the package
        self.picked_rows = ""
        self.conditions_on_rows = []  # descriptions of outputs, of which a run with values knows nothing
        self.refusal = ""  # what the module has last said of a batch
        self.notes = []
        self.module = module
        self._sources = set()  # other modules of Python that read numbers of the run
        self._without = without  # hooks that are left out
        self._at_the_end = [] if epoch_logs.HOOKS.get(name) in without else epoch_logs.logged_at_the_end(module, name, hooks.own)
        self._trainer = trainer or {}  # values of self.trainer that are fixed
        self._spares = metric_objects.spares(module)
        self._written = []  # positions of the batch's tensors that the step changes
        self._seeks_line = False  # it runs again to find one
        self._left_behind = {}  # tensors that each step leaves in an attribute anew, by identity

    def called(self, tensors, log):
        """What the step gives for a batch of these tensors. What a hook logs of metric objects at the end of the epoch is logged with the step's."""
        result = call_step(self.function, self.module, self.layout.rebuild(tensors), log)
        epoch_logs.log(log, self.module, self._at_the_end, f'"{{}}" is logged by {self.name}: {epoch_logs.HOOKS.get(self.name)}() logs a metric object that it updates')
        return result

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
        memory = {name: tensor.data_ptr() for name, tensor in state.items()} if changed is not None else {}
        recorder.trained = {id(tensor): name for each in (self.weights.parameters, state) for name, tensor in each.items() if tensor.requires_grad}
        with self.inside(recorder, state), recorder.seeds_refused(), checkpointing.run_through(recorder), recorder.packs.layers(), torch_patches.lists(), \
                torch.set_grad_enabled(self.training):
            with self.autocast(), recorder.counts, recorder.counts.answering(), recorder:
                recorder.counts.add_sizes(tensors)
                recorder.counts.sources = recorder.sources
                recorder.sizes = self.layout.sizes(tensors)
                result = self.called(tensors, recorder)
                decided = next((decision.where for decision in reversed(recorder.decisions)), "") if result is None else ""
                loss, extras = outputs_of(result, self.training, decided or self.where)
                for name in no_tensors_of(result) if recorder.explores and self.name != "function" else ():
                    recorder.note(f'{self.where}: "{name}", which {self.name} returns, is no tensor, and is left out of the package')
                recorder.end()
                of_rows = recorder.counts.conditions()
            gradients = self._gradients_of(loss, parameters)
            now = {name: self.module.get_buffer(name) if name in buffers else state[name] for name in copied}
        described = []
        if loss is not None:
            described.append(({"kind": "loss"}, loss.detach().reshape(())))
        for name, (value, options, weight, updated) in recorder.logs.items():
            if updated is not None:
                metric = updated.described
                for position, tensor in enumerate(updated.inputs):
                    described.append(({"kind": "metric", "name": name, "options": options, "metric": metric, "input": position},
                                      tensor.detach()))
            else:
                described.append(({"kind": "log", "name": name, "options": options}, value))
            if weight is not None:
                described.append(({"kind": "weight", "name": name}, weight))
        for name, tensor in extras:
            described.append(({"kind": "extra", "name": name}, tensor.detach()))
        for decision, condition in zip(recorder.decisions, recorder.conditions):
            described.append(({"kind": "condition", "taken": decision.taken, "where": decision.where}, condition))
        for taken, where, condition in of_rows:
            self.conditions_on_rows.append({"kind": "condition", "taken": taken, "where": where})
            described.append((self.conditions_on_rows[-1], condition))
        if changed is not None:
            changed += [name for name in state if now[name] is not state[name] or now[name].data_ptr() != memory[name]
                        or recorder.origins.has_written(now[name]) or not torch.equal(now[name], initial[name])]
            changed += [position for position, tensor in enumerate(tensors) if tensor._version > 0 or recorder.origins.has_written(tensor)]
            self._check_changed(changed, now, initial)
        recorder.later = {name: tensor.detach() for name, tensor in now.items()}
        for name in self.buffers:
            described.append(({"kind": "buffer", "name": name}, now[name].detach()))
        for name, gradient in gradients.items():
            described.append(({"kind": "gradient", "name": name}, gradient))
        return [output for _, output in described], [description for description, _ in described]

    def probe(self, tensors):
        """Runs the step as it is, to find what it does. Gives its courses, the one of the example first.

        The first run may set attributes that all others find, as masks that are made on demand. The next two show what else changes.
        """
        return self.retried(lambda: self._probed(tensors))

    def retried(self, run):
        """What run() gives, where other modules of Python than the user's read numbers of the run, and lengths."""
        while True:
            try:
                return run()
            except AnotherSource as error:
                if error.source in self._sources:
                    raise
                self._sources.add(error.source)

    def _probed(self, tensors):
        with side_effects.watched(self._note):
            start = attributes_now(self.module)
            first = self._tried(self.layout.tensors, 0)
            with contextlib.redirect_stdout(io.StringIO()):
                self._tried(tensors, 1)
                before = State(self.module, self.source)
                recorder = self._tried(tensors, 1)
                after = State(self.module, self.source)
                for name in before.changed(after):
                    if whom := hooks.only_collects(self.module, name, self._without):
                        self._note(f"{name} takes values {whom}, and is left out too")
                    else:
                        refuse_change(name, before, after, lambda: self._tried(tensors, 1), self.where)
                for name in before.kept_numbers(after):
                    refuse_kept(name, self.module, start, lambda: self._tried(tensors, 1), self.where)
                others = [example for example in self.layout.examples if self.layout.is_compared and example is not tensors]
                self._follow_sizes([(recorder, tensors), *((self._tried(example, 1), example) for example in others)])
                counters.check(self, recorder, tensors, self._numbers(1))
            self.courses = courses.found_in(lambda numbers: self._tried(tensors, 1, numbers), courses.Course(recorder, self._numbers(1)))
        self._check_names(first, recorder)
        self._left_behind = {key: found for key, found in after.tensors().items() if key not in before.tensors()}
        for note in [*first.notes, *(note for course in self.courses for note in course.recorder.notes)]:
            self._note(note)
        self.optional, self.picked_rows = set().union(*(course.recorder.optional for course in self.courses)), recorder.picked_rows
        return self.courses

    def ways(self, numbers, parameters, buffers, tensors):
        """The course that the step takes, and which ways it goes in conditions that a package checks."""
        recorder = self._recorder_of_values(numbers, parameters, buffers, tensors)
        with preserved(self.module), recorder.origins, contextlib.redirect_stdout(io.StringIO()):
            self.run(recorder, parameters, buffers, tensors, [])
        return courses.Course(recorder, {}).turns, [decision.taken for decision in recorder.decisions]

    @staticmethod
    def _numbers(seed):
        """Numbers of the run with which a step is tried."""
        return {name: seed * (position + 5) for position, name in enumerate(NUMBERS)}

    def _recorder_of_values(self, numbers, parameters, buffers, tensors, prints=False):
        origins = Origins()
        recorder = Recorder(numbers, self.training, origins, prints=prints, compared=self.layout.is_compared)
        for origin, values in ((BATCH, tensors), (WEIGHTS, [*parameters.values(), *buffers.values()]),
                               *((name, [number.tensor]) for name, number in recorder.numbers.items()),
                               *((Kept(name), [tensor]) for name, tensor in {**parameters, **buffers}.items() if not tensor.requires_grad)):
            origins.add(origin, values)
        return recorder

    def _tried(self, tensors, seed, others=None):
        """One run on tensors with values, and numbers of the run if `others` are given. Notes which buffers change."""
        numbers, changed = {name: torch.tensor(value) for name, value in (others or self._numbers(seed)).items()}, []
        parameters, buffers = self.weights.parameters, self.weights.buffers
        recorder = self._recorder_of_values(numbers, parameters, buffers, tensors, prints=seed == 0)
        with random_state(1), warnings.catch_warnings(record=seed == 0) as caught:
            warnings.simplefilter("always" if seed == 0 else "ignore")
            try:
                with recorder.origins:
                    self.run(recorder, parameters, buffers, tensors, changed)
            except ExportError:
                raise
            except Exception as error:
                if seed and tensors is not self.layout.tensors:  # whether it is on account of the numbers
                    self._tried(self.layout.tensors, seed)
                refuse_failure(self, error, tensors, {name: int(number) for name, number in numbers.items()} if seed else {})
        for warning in caught or ():
            if "target size" in str(warning.message):
                recorder.note(f"{self.name}: {str(warning.message).splitlines()[0]}")
            else:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        changed += [*self.also_written, *(self.buffers + self._written if others else ())]
        self.buffers = [name for name in dict.fromkeys(changed) if isinstance(name, str)]
        self._written = [position for position in dict.fromkeys(changed) if isinstance(position, int)]
        return recorder

    def _follow_sizes(self, runs):
        """Of whole numbers that differ between the batches, finds the dimension whose size they are. Refuses others. `runs`: a recorder and its batch
        each, the first of which is recorded."""
        sizes = [self.layout.sizes(tensors) for _, tensors in runs]
        for decisions in zip(*(recorder.decisions for recorder, _ in runs)):
            values = [decision.value for decision in decisions]
            if len(set(values)) == 1:
                continue
            name = next((name for name in sizes[0] if [its[name] for its in sizes] == values), None)
            if name is None:
                other = next(value for value in values if value != values[0])
                refuse(f"a number is made of a tensor's value, which is {values[0]} in one batch and {other} in another: what depends on it would "
                       "be fixed in the package", "Compute with the tensor itself; for sizes that come from data pad to a fixed length, with masks, or to "
                       "the longest of the batch", decisions[0].where)
            decisions[0].follows = name

    def _check_names(self, first, second):
        """Refuses names of logged values that differ from step to step."""
        ways = [[each.taken for each in recorder.decisions + recorder.turns] for recorder in (first, second)]
        if ways[0] != ways[1] or list(first.logs) == list(second.logs):
            return
        one, other = (next(iter(set(these) - set(those)), None) for these, those in ((first.logs, second.logs), (second.logs, first.logs)))
        names = " in one step and ".join(f'"{name}"' if name else "nothing" for name in (one, other))
        refuse(f"the step logs {names} in another", "Log it under a name that stays the same", {**first.lines, **second.lines}[one or other])

    def leave_out(self, name, note):
        """Leaves what is logged under this name out of the package."""
        self.left_out.add(name)
        self._note(note)

    def _note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def _check_changed(self, changed, now, initial):
        for name in changed:
            if name in self.weights.parameters and initial[name].requires_grad:
                refuse(f"the step changes the parameter {name}, which its optimizer changes too",
                       "Freeze it (requires_grad_(False)) if the step alone is to change it, or do it in C++ in on_train_batch_end",
                       self._line_of_write(name))
            if name in initial and (now[name].shape != initial[name].shape or now[name].dtype != initial[name].dtype):
                refuse(f"the step gives the buffer {name} another shape or type: {list(now[name].shape)} instead of "
                       f"{list(initial[name].shape)}",
                       "Give it its last shape in __init__", self.where)
            if name in initial and self.name == "function":
                refuse(f"the function changes {name}, which a package of a function does not keep", "Return the value", self.where)

    def _line_of_write(self, name):
        if self._seeks_line:
            return self.where
        self._seeks_line = True
        return line_of_write(self.module, name, lambda: self._tried(self.layout.tensors, 1)) or self.where

    def changes(self):
        """Names of the weights and of the batch's tensors that the step changes."""
        return {*self.buffers, *(self.layout.names[position] for position in self._written)}

    @property
    def where(self):
        """Where the user has written it."""
        return line_of(self.source)

    def attribute_of(self, tensor):
        """The attribute of the module that a tensor is, as "self.name"."""
        if id(tensor) in self._left_behind:
            return self._left_behind[id(tensor)][0]
        for prefix, part in self.module.named_modules():
            for name, value in vars(part).items():
                inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
                if not name.startswith("_") and any(value is tensor for value in inner):
                    return f"self.{prefix}.{name}".replace("..", ".")
        return ""

    def leaves_behind(self, tensor):
        """Whether an earlier step has left this tensor in an attribute, where each step leaves another."""
        return id(tensor) in self._left_behind

    def _gradients_of(self, loss, parameters):
        if not self.training:
            return {}
        if loss.grad_fn is None:
            refuse("the loss depends on no parameter that requires a gradient", "Check detach() and no_grad() in the step",
                   self.where)
        with torch_patches.sizes_of_data_in_backward():
            loss.reshape(()).backward()
        gradients = {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}
        for parameter in parameters.values():  # another course of the step begins without
            parameter.grad = None
        for name, gradient in gradients.items():
            if gradient.layout != torch.strided:
                refuse(f"the gradient of {name} is sparse", "Make the embedding with sparse=False", self.where)
        return gradients

    def recorder(self, earlier, numbers):
        """For another run, as the earlier one was."""
        return Recorder(numbers, self.training, earlier=earlier)

    def autocast(self):
        dtype = PRECISIONS[self.precision]
        return torch.autocast("cpu", dtype=dtype) if dtype else contextlib.nullcontext()

    @contextlib.contextmanager
    def inside(self, log, state, recorded=True):
        """The module with these weights, and with what a step sees of Lightning. What the step changes of its attributes stays where it
        runs on tensors with values, and else is put back. `recorded`: not as the reference."""
        module = self.module
        modes = {part: part.training for part in module.modules()}
        classes = {part: type(part) for part in module.modules()
                   if hasattr(type(part), "configure_optimizers") and hasattr(type(part), "log")}
        computed = [(part, name, vars(part)[name]) for part in module.modules() for name in computed_attributes(part) if name in vars(part)]
        with contextlib.ExitStack() as stack:
            if not getattr(log, "explores", False):
                stack.enter_context(preserved(module))
            stack.enter_context(logging_to(log))
            stack.enter_context(torch_patches.weights(module, state))
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            if recorded:
                stack.enter_context(torch_patches.compiling())
                stack.enter_context(metric_objects.unchecked_functions())
            stack.enter_context(users_code.uncompiled(module))
            not_used = stack.enter_context(metric_objects.recorded(module, self._spares))
            stack.enter_context(users_code.replaced(module, self.source, log, recorded, self._sources))
            for part, part_class in classes.items():
                part.__class__ = stand_in_class(part_class, log, self.name, self._trainer)
            try:
                if not self.training:
                    hooks.evaluate(module, self.name, self._without)
                yield
                for name in not_used():
                    log.note(f"self.{name} is updated in {self.name} and not logged: it is left out of the package")
            finally:
                for part, part_class in classes.items():
                    part.__class__ = part_class
                for part, mode in modes.items():
                    part.training = mode
                for part, name, value in computed:
                    vars(part)[name] = value
