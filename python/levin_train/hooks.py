"""Hooks of a LightningModule: those that an export runs, those that are left out of the package, and those that it refuses."""

import ast
import collections
import contextlib
import inspect

from levin_train.errors import ExportError, line_of, raising_line, refuse
from levin_train.hook_changes import Judge, syntax, wrappers

RUN = ("setup", "configure_model")  # once, before the export
# What they do belongs to evaluation, prediction and files: training goes on without them.
_AFTER_TRAINING = (
    "on_fit_end", "on_train_end", "on_test_start", "on_test_end", "on_test_epoch_start", "on_test_epoch_end", "on_test_batch_start",
    "on_test_batch_end", "on_predict_start", "on_predict_end", "on_predict_epoch_start", "on_predict_epoch_end", "on_predict_batch_start",
    "on_predict_batch_end", "on_test_model_train", "on_predict_model_train", "on_save_checkpoint", "on_load_checkpoint", "configure_callbacks")
_WITHIN_TRAINING = (
    "on_validation_start", "on_validation_end", "on_validation_epoch_start", "on_validation_epoch_end",
    "on_validation_batch_start", "on_validation_batch_end")
# They run around the steps of training, and may do nothing but log.
_AROUND_STEPS = (
    "on_fit_start", "on_train_start", "on_train_epoch_start", "on_train_epoch_end", "on_train_batch_start", "on_train_batch_end",
    "on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_before_zero_grad")
_ONLY_TO_LOG = ("on_train_epoch_end", "on_validation_epoch_end", "on_test_epoch_end")  # what is said of them helps where they log
# They are how a step is made.
OF_TRAINING = (
    "optimizer_step", "optimizer_zero_grad", "backward", "configure_gradient_clipping", "lr_scheduler_step", "transfer_batch_to_device",
    "on_before_batch_transfer", "on_after_batch_transfer", "on_validation_model_train", "on_validation_model_zero_grad", "configure_sharded_model")
_EVALUATES = {"validation_step": "on_validation_model_eval", "test_step": "on_test_model_eval", "predict_step": "on_predict_model_eval"}
HOOKS = (*RUN, *_AFTER_TRAINING, *_WITHIN_TRAINING, *_AROUND_STEPS, *OF_TRAINING, *_EVALUATES.values())
# Those of Lightning 1, and what they are called in Lightning 2, which refuses them.
_OF_LIGHTNING_1 = {"training_epoch_end": "on_train_epoch_end", "validation_epoch_end": "on_validation_epoch_end", "test_epoch_end": "on_test_epoch_end"}
_LIBRARIES = ("lightning.pytorch.core", "lightning.fabric", "pytorch_lightning.core", "lightning_fabric", "torch")
_EVALUATION = ("validation_step", "test_step", "predict_step")
_STEPS = ("training_step", *_EVALUATION)
_INSTEAD = {
    "configure_callbacks": "name its callbacks in the section trainer of the YAML",
    "configure_gradient_clipping": "gradient_clip_val in the section trainer of the YAML clips gradients",
    "on_before_optimizer_step": "gradient_clip_val in the section trainer of the YAML clips gradients",
    "on_train_epoch_end": "a metric object that a step logs is computed at the end of an epoch",
    "on_validation_epoch_end": "a metric object that validation_step logs is computed at the end of the epoch",
    "on_test_epoch_end": "a metric object that test_step logs is computed at the end of the epoch",
    "lr_scheduler_step": "levin steps the schedule of the YAML",
}


def own(module, name):
    """A method that the user, or a library of the user's, has written: of the object where it has one of its own, else of its class."""
    function = _of_object(module, name) or getattr(type(module), name, None)
    return None if function is None or _of_library(function.__module__) else function


def _of_object(module, name):
    """The function of a hook or step that is an attribute of the object, which Lightning calls in place of the class's. None where there is none."""
    value = vars(module).get(name) if name in (*HOOKS, *_STEPS) else None
    value = getattr(value, "_torchdynamo_orig_callable", value)
    if value is None or inspect.ismethod(value) and value.__self__ is module:
        return getattr(value, "__func__", None)
    refuse(f"{name} is an attribute of the {type(module).__name__}, and no method of it, and Lightning calls it in place of the class's",
           f"Define {name} in the class, or assign a method of the object: self.{name} = self.…", line_of(value))


def _of_library(source):
    return any(source == library or source.startswith(f"{library}.") for library in _LIBRARIES)


def evaluate(module, step_name, without):
    """Puts a module into evaluation mode, by its own hook if it has one."""
    name = _EVALUATES.get(step_name, "")
    hook = None if name in without else own(module, name)
    if hook:
        hook(module)
    else:
        module.eval()


def check(module, without, tried):
    """Gives notes on the hooks that are left out. Raises ExportError that names all hooks which cannot be. `tried`: gives what hooks of these names
    change when they run, by name, and None for those that are how a step is made and do as Lightning's do; and why some could not run."""
    refused, notes = [], []
    found = {name: function for name in (*_AFTER_TRAINING, *_WITHIN_TRAINING, *_AROUND_STEPS, *OF_TRAINING)
             if (function := own(module, name)) and name not in without and not _does_nothing(function)}
    changes = {name: _change(module, name) for name in found}
    tries, failures = tried([name for name, change in changes.items() if name in OF_TRAINING or change is None and name not in _AFTER_TRAINING])
    changes |= tries
    for name, why in failures.items():
        change = _change(module, name, untried=True) if changes[name] is None and name in _AROUND_STEPS else None
        if change:
            changes[name] = f"{change[:-1]}, and it cannot be tried: {why})"
    for name, function in found.items():
        change = changes[name]
        instead = f" ({_INSTEAD[name]})" if name in _INSTEAD else ""
        if change is None and name in OF_TRAINING:
            continue
        if change is None:
            notes.append(f"{line_of(function)}: {name}() is left out of the package{instead}")
        else:
            refused.append((name, line_of(function), (f" {change}" if change else "") + (instead if name not in _ONLY_TO_LOG or change is None else "")))
    notes += [f"{line_of(function)}: {name}() is left out of the package: it is a hook of Lightning 1, whose successor is {successor}()"
              for name, successor in _OF_LIGHTNING_1.items() if (function := own(module, name))]
    if refused:
        names = [name for name, _, _ in refused]
        shown = "; ".join(f"{name}() at {line}{reason}" for name, line, reason in refused)
        raise ExportError(f"{refused[0][1]}: {type(module).__name__} has hooks that a package cannot run: {shown}. Write them in C++, in a class "
                          f'below levin::ExportedModule, and say without=[{", ".join(map(_quoted, names))}].')
    return notes


def _quoted(name):
    return f'"{name}"'


def _does_nothing(function):
    tree = syntax(function)
    body = tree.body[0].body if tree and isinstance(tree.body[0], ast.FunctionDef) else [None]
    return not wrappers(function) and all(isinstance(node, ast.Pass) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def only_collects(module, attribute, without):
    """For whom a step puts values in a list, "self.name", where the module does nothing else with it; an empty text where it does more."""
    name, whom = attribute.removeprefix("self."), "that no step reads"
    if not isinstance(getattr(module, name, None), (list, collections.deque)):
        return ""
    for method, function in _mentions(module, name):
        if method in (*_AFTER_TRAINING, *_WITHIN_TRAINING, *_AROUND_STEPS, *without):  # those that are in the package are refused before
            whom = "for hooks that are left out"
        elif method != "__init__" and not _puts_in(syntax(function), name):
            return ""
    return whom


def _puts_in(tree, name):
    """Whether this source only puts values into self.name."""
    if tree is None:
        return False
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == name]
    puts = [node.value.func.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute) and node.value.func.attr in ("append", "extend")]
    return bool(uses) and all(any(use is put for put in puts) for use in uses)


def reads_elsewhere(module, name, hook):
    """Whether training may read self.name: a method mentions it that is not for evaluation alone, and does more than put values in. After hooks around
    the steps of training evaluation counts too, which comes later."""
    training = hook in _AROUND_STEPS
    apart = {*_AFTER_TRAINING, *_WITHIN_TRAINING, "__init__", *(_AROUND_STEPS if training else _EVALUATION)}
    return any(method not in apart and not (training and _puts_in(syntax(function), name)) for method, function in _mentions(module, name))


def _mentions(module, name):
    """The user's methods that mention an attribute of this name."""
    return [(method, function) for part in type(module).__mro__ if not _of_library(part.__module__) for method, function in vars(part).items()
            if name in getattr(getattr(function, "__code__", None), "co_names", ())]


def _change(module, name, untried=False):
    """What a hook changes that training may notice, in words; None when it is nothing that shows in its source. `untried`: of one that could not be
    run."""
    if name not in (*_WITHIN_TRAINING, *_AROUND_STEPS):
        return "" if name in OF_TRAINING else None
    return Judge(module, own, lambda attribute: _mentions(module, attribute), lambda attribute: reads_elsewhere(module, attribute, name),
                 name in _AROUND_STEPS, untried).change(name)


@contextlib.contextmanager
def seeing(module, trainer):
    """While it lasts, self.trainer of the module is `trainer`."""
    module_class = type(module)
    module.__class__ = type(module_class)(module_class.__name__, (module_class,), {"__module__": module_class.__module__, "trainer": trainer})
    try:
        yield
    finally:
        module.__class__ = module_class


def run_before_export(module, trainer, without):
    """Calls setup("fit") and configure_model(), as Lightning does before training. `trainer`: what they see as self.trainer."""
    for name, arguments in (("setup", ("fit",)), ("configure_model", ())):
        if name in without or not own(module, name):
            continue
        try:
            with seeing(module, trainer):
                getattr(module, name)(*arguments)
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(f"{raising_line(error)}: {name}() fails before the export: {type(error).__name__}: {error}. Give export() a module "
                              f'that works without it, and say without=["{name}"]') from error
