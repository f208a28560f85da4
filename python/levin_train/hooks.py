"""Hooks of a LightningModule: those that an export runs, those that are left out of the package, and those that it refuses."""

import ast
import inspect
import textwrap

from levin_train.errors import ExportError, line_of, raising_line

RUN = ("setup", "configure_model")  # once, before the export
# What they do belongs to evaluation, prediction and files: training goes on without them.
_AFTER_TRAINING = (
    "on_fit_end", "on_train_end", "on_test_start", "on_test_end", "on_test_epoch_start", "on_test_epoch_end", "on_test_batch_start",
    "on_test_batch_end", "on_predict_start", "on_predict_end", "on_predict_epoch_start", "on_predict_epoch_end", "on_predict_batch_start",
    "on_predict_batch_end", "on_test_model_train", "on_predict_model_train", "on_save_checkpoint", "on_load_checkpoint", "configure_callbacks")
_WITHIN_TRAINING = (
    "on_validation_start", "on_validation_end", "on_validation_epoch_start", "on_validation_epoch_end",
    "on_validation_batch_start", "on_validation_batch_end")
_OF_TRAINING = (
    "on_fit_start", "on_train_start", "on_train_epoch_start", "on_train_epoch_end", "on_train_batch_start", "on_train_batch_end",
    "on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_before_zero_grad", "optimizer_step", "optimizer_zero_grad",
    "backward", "configure_gradient_clipping", "lr_scheduler_step", "transfer_batch_to_device", "on_before_batch_transfer",
    "on_after_batch_transfer", "on_validation_model_train", "on_validation_model_zero_grad", "configure_sharded_model")
_EVALUATES = {"validation_step": "on_validation_model_eval", "test_step": "on_test_model_eval", "predict_step": "on_predict_model_eval"}
HOOKS = (*RUN, *_AFTER_TRAINING, *_WITHIN_TRAINING, *_OF_TRAINING, *_EVALUATES.values())
_LIBRARIES = ("lightning.pytorch.core", "lightning.fabric", "pytorch_lightning.core", "lightning_fabric", "torch")
_EVALUATION = ("validation_step", "test_step", "predict_step")
_INSTEAD = {
    "configure_callbacks": "name its callbacks in the section trainer of the YAML",
    "configure_gradient_clipping": "gradient_clip_val in the section trainer of the YAML clips gradients",
    "on_before_optimizer_step": "gradient_clip_val in the section trainer of the YAML clips gradients",
    "on_train_epoch_end": "a metric object that a step logs is computed at the end of an epoch",
    "on_validation_epoch_end": "a metric object that validation_step logs is computed at the end of the epoch",
    "on_test_epoch_end": "a metric object that test_step logs is computed at the end of the epoch",
    "lr_scheduler_step": "levin steps the schedule of the YAML",
}
# Methods that change what is trained, or how.
_CHANGES = {"load_state_dict", "requires_grad_", "train", "eval", "freeze", "unfreeze", "optimizers", "lr_schedulers", "add_param_group",
            "manual_backward", "register_parameter", "register_buffer", "apply", "to"}


def own(module, name):
    """A method that the user, or a library of the user's, has written."""
    function = getattr(type(module), name, None)
    return None if function is None or _of_library(function.__module__) else function


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


def check(module, without):
    """Gives notes on the hooks that are left out. Raises ExportError that names all hooks which cannot be."""
    refused, notes = [], []
    for name in (*_AFTER_TRAINING, *_WITHIN_TRAINING, *_OF_TRAINING):
        function = own(module, name)
        if function is None or name in without or _does_nothing(function):
            continue
        change = _change(module, name) if name in _WITHIN_TRAINING else None
        instead = f" ({_INSTEAD[name]})" if name in _INSTEAD else ""
        if name not in _OF_TRAINING and change is None:
            notes.append(f"{line_of(function)}: {name}() is left out of the package{instead}")
        else:
            refused.append((name, line_of(function), f" {change}" if change else instead))
    if refused:
        names = [name for name, _, _ in refused]
        shown = "; ".join(f"{name}() at {line}{reason}" for name, line, reason in refused)
        raise ExportError(f"{refused[0][1]}: {type(module).__name__} has hooks that a package cannot run: {shown}. Write them in C++, in a class "
                          f'below levin::ExportedModule, and say without=[{", ".join(map(_quoted, names))}].')
    return notes


def _quoted(name):
    return f'"{name}"'


def _syntax(function):
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return None


def _does_nothing(function):
    tree = _syntax(function)
    body = tree.body[0].body if tree and isinstance(tree.body[0], ast.FunctionDef) else [None]
    return all(isinstance(node, ast.Pass) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def only_collects(module, attribute, without):
    """Whether a step does nothing with a list, "self.name", but put values in, for hooks that are left out."""
    name, read = attribute.removeprefix("self."), False
    for method, function in ((method, function) for part in type(module).__mro__ if not _of_library(part.__module__)
                             for method, function in vars(part).items() if name in getattr(getattr(function, "__code__", None), "co_names", ())):
        if method in (*_AFTER_TRAINING, *_WITHIN_TRAINING, *without):
            read = True
        elif method != "__init__" and not _puts_in(_syntax(function), name):
            return False
    return read


def _puts_in(tree, name):
    """Whether this source only puts values into self.name."""
    if tree is None:
        return False
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == name]
    puts = [node.value.func.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute) and node.value.func.attr in ("append", "extend")]
    return bool(uses) and all(any(use is put for put in puts) for use in uses)


def _reads_elsewhere(module, name):
    """Whether training may read self.name: a method that is not for evaluation mentions it."""
    apart = {*_EVALUATION, *_AFTER_TRAINING, *_WITHIN_TRAINING, "__init__"}
    for part in type(module).__mro__:
        for method, function in vars(part).items():
            code = getattr(function, "__code__", None)
            if code and method not in apart and not _of_library(part.__module__) and name in code.co_names:
                return True
    return False


def _root(target):
    """x of self.x, self.x.y and self.x[0]; None for a variable."""
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            return target.attr
        target = target.value
    return None


def _change(module, name, depth=0):
    """What a method changes that training may notice, in words; None when it is nothing that shows in its source."""
    function = own(module, name)
    if function is None or depth > 3:
        return None
    tree = _syntax(function)
    if tree is None:
        return "(its source is not there to be looked at)"
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
        parts = [part for target in targets for part in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]
        for root in filter(None, map(_root, parts)):
            if root == "trainer" or root in module._modules or root in module._parameters or root in module._buffers or _reads_elsewhere(module, root):
                return f"(it changes self.{root}, which training may read)"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func.attr
            if called in _CHANGES or called.endswith("_") and not called.endswith("__"):
                return f"(it calls {called}(), which may change what is trained)"
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "self" and (found := _change(module, called, depth + 1)):
                return found
    return None


def run_before_export(module, trainer, without):
    """Calls setup("fit") and configure_model(), as Lightning does before training. `trainer`: what they see as self.trainer."""
    module_class = type(module)
    for name, arguments in (("setup", ("fit",)), ("configure_model", ())):
        if name in without or not own(module, name):
            continue
        module.__class__ = type(module_class)(module_class.__name__, (module_class,), {"__module__": module_class.__module__, "trainer": trainer})
        try:
            getattr(module, name)(*arguments)
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(f"{raising_line(error)}: {name}() fails before the export: {type(error).__name__}: {error}. Give export() a module "
                              f'that works without it, and say without=["{name}"]') from error
        finally:
            module.__class__ = module_class
