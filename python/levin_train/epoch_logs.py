"""Metric objects that a step updates, and a hook at the end of an epoch logs: self.log("val_accuracy", self.accuracy.compute()). The step logs the
object then, whose value levin computes at the end of the epoch."""

import ast

from levin_train import metric_objects
from levin_train.hook_changes import syntax, wrappers

HOOKS = {"training_step": "on_train_epoch_end", "validation_step": "on_validation_epoch_end", "test_step": "on_test_epoch_end"}
_OPTIONS = ("prog_bar", "logger", "sync_dist")  # of log(), that say the same of an object


def logged_at_the_end(module, step_name, own):
    """(name or None for a collection's own, attribute, options) of what the hook of a step logs by compute(), where one resets it for each epoch.
    `own`: gives a method that the user has written."""
    name = HOOKS.get(step_name, "")
    body = _body(own(module, name)) if name else []
    resets = {attribute for part in (*body, *_body(own(module, name.replace("_end", "_start")) if name else None))
              if isinstance(part, ast.Expr) and (attribute := _called(part.value, "reset"))}
    computed, found = {}, []  # computed: attributes by the variable that has their value
    for part in body:
        if isinstance(part, ast.Assign) and len(part.targets) == 1 and isinstance(part.targets[0], ast.Name):
            computed[part.targets[0].id] = _called(part.value, "compute")
        call = part.value if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call) else None
        given = _logged(call)
        if given is None:
            continue
        text, value = given
        attribute = computed.get(value.id) if isinstance(value, ast.Name) else _called(value, "compute")
        options = {keyword.arg: keyword.value.value for keyword in call.keywords if isinstance(keyword.value, ast.Constant)}
        if attribute in resets and len(options) == len(call.keywords):
            found.append((text, attribute, {key: options[key] for key in _OPTIONS if key in options}))
    return found


def _body(function):
    """The statements of a hook that run each time; none where something may end it before."""
    tree = syntax(function) if function is not None and not wrappers(function) else None
    body = tree.body[0].body if tree and isinstance(tree.body[0], ast.FunctionDef) else []
    return [] if any(isinstance(part, (ast.Return, ast.Raise)) for statement in body[:-1] for part in ast.walk(statement)) else body


def _called(value, method):
    """x of self.x.method()."""
    if isinstance(value, ast.Call) and not value.args and not value.keywords and isinstance(value.func, ast.Attribute) and value.func.attr == method:
        receiver = value.func.value
        if isinstance(receiver, ast.Attribute) and isinstance(receiver.value, ast.Name) and receiver.value.id == "self":
            return receiver.attr
    return None


def _logged(call):
    """The name and the value of self.log(), and None and the value of self.log_dict()."""
    function = call.func if call is not None and isinstance(call.func, ast.Attribute) else None
    if function is None or not isinstance(function.value, ast.Name) or function.value.id != "self":
        return None
    if function.attr == "log" and len(call.args) == 2 and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str):
        return call.args[0].value, call.args[1]
    return (None, call.args[0]) if function.attr == "log_dict" and len(call.args) == 1 else None


def log(log, module, found, note):
    """Logs those that the step has updated. `found`: as logged_at_the_end() gives it; `note`: what is said of each."""
    for name, attribute, options in found:
        value = getattr(module, attribute, None)
        for each, metric in ({name: value} if name is not None else dict(value.items()) if hasattr(value, "items") else {}).items():
            updated = vars(metric).get("_levin_updated") if metric_objects.is_metric(metric) and metric_objects.has_equivalent(metric) else None
            if updated is not None and not updated.logged and each not in log.logs:
                log.log(each, metric, on_step=False, on_epoch=True, **options)
                log.note(note.format(each))
