"""What a hook changes that training may notice, as its source shows: what it assigns and calls, and what the methods that it calls do."""

import ast
import builtins
import inspect
import textwrap

import torch

from levin_train import metric_objects

# Methods that change what is trained, or how, whatever they are called on.
_CHANGES = {"load_state_dict", "requires_grad_", "train", "eval", "freeze", "unfreeze", "add_param_group", "manual_backward", "register_parameter",
            "register_buffer", "apply", "to", "setattr", "__setattr__"}
_OF_WEIGHTS = {"parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children", "named_children", "optimizers",
               "lr_schedulers"}
_READS = _OF_WEIGHTS | {"state_dict", "items", "keys", "values", "get", "get_last_lr", "numel"}
_OF_LIGHTNING = {"log", "log_dict", "print", "all_gather"} | _READS
_LOGGERS = {"logger", "loggers", "callback_metrics", "logged_metrics", "progress_bar_metrics"}


def syntax(function):
    """The tree of a function's source, or None."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return None


def root(target):
    """x of self.x, self.x.y and self.x[0]; None for a variable."""
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            return target.attr
        target = target.value
    return None


def _variable(target):
    """x of x.y, x[0] and x.y()."""
    while isinstance(target, (ast.Attribute, ast.Subscript, ast.Call)):
        target = target.func if isinstance(target, ast.Call) else target.value
    return target.id if isinstance(target, ast.Name) else None


def _is_metric(value):
    return metric_objects.is_metric(value) or type(value).__name__ == "MetricCollection"


def _reads_a_tensor(name):
    return hasattr(torch.Tensor, name) and not hasattr(torch.nn.Module, name) and name != "backward"


def _is_tensor(receiver):
    """Whether this is a tensor, of which no method without a final "_" changes anything: a gradient, or what a tensor's method has made."""
    made = [part.func.attr for part in ast.walk(receiver) if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)]
    return any(map(_reads_a_tensor, made)) or any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in ast.walk(receiver))


def _is_pure(function):
    """Whether a function that is given weights is known to leave them as they are."""
    source = getattr(function, "__module__", None) or ""
    if source == "builtins":
        return function not in (setattr, delattr, exec, eval)
    return source.split(".")[0] == "torch" and not source.startswith(("torch.nn.utils", "torch.nn.init", "torch.optim")) or source.endswith("utilities.grads")


class Judge:
    """Looks at hooks of one module. `own`: gives a method that the user has written; `reads`: whether training reads an attribute; `training`: of
    hooks that run between steps of training, in which a forward() counts too, and of what their source calls everything must be known."""

    def __init__(self, module, own, reads, training):
        self._module, self._own, self._reads, self._training = module, own, reads, training

    def change(self, name):
        """What a hook changes, in words; None when it is nothing that shows."""
        return self._of_method(self._own(self._module, name), None, 0)

    def _of_method(self, function, given, depth):
        """`given`: what its arguments are; None for a hook, whose arguments are the run's."""
        if function is None or depth > 4:
            return None if function is None or not self._training else "(it calls methods too deeply to be looked at)"
        tree = syntax(function)
        if tree is None or not isinstance(tree.body[0], ast.FunctionDef):
            return "(its source is not there to be looked at)"
        names = [argument.arg for argument in tree.body[0].args.args[1:]]
        values = dict.fromkeys(names, "weights" if given is None else "own")
        values.update(zip(names, given or ()))
        look = _Look(self, function, values, depth)
        return look.at(tree.body[0])

    def of_attribute(self, name):
        """What self.name is: "weights" of parts that are trained, "metric", "logger", "trainer", or "own" of the user's."""
        if name in _LOGGERS or name == "trainer":
            return "logger" if name in _LOGGERS else "trainer"
        if name in ("_parameters", "_buffers", "_modules") or name in self._module._parameters or name in self._module._buffers:
            return "weights"
        value = self._module._modules.get(name, vars(self._module).get(name))
        parts = list(value.values() if isinstance(value, (dict, torch.nn.ModuleDict)) else value if isinstance(value, (list, torch.nn.ModuleList)) else [value])
        if parts and all(map(_is_metric, parts)):
            return "metric"
        return "weights" if any(isinstance(part, (torch.nn.Module, torch.nn.Parameter)) for part in parts) else "own"


class _Look:
    """Looks at the source of one method."""

    def __init__(self, judge, function, values, depth):
        self._judge, self._function, self._values, self._depth = judge, function, values, depth

    def at(self, tree):
        nodes = [node for statement in tree.body for node in ast.walk(statement)]
        for node in nodes:  # variables first: a loop may use what it assigns further down
            self._take(node)
        for node in nodes:
            found = self._assigned(node) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)) else \
                self._called(node) if isinstance(node, ast.Call) else \
                "(it changes a global variable)" if isinstance(node, (ast.Global, ast.Nonlocal)) else \
                "(what it returns counts)" if isinstance(node, ast.Return) and node.value is not None and self._depth == 0 and \
                not (isinstance(node.value, ast.Constant) and node.value.value is None) else None
            if found:
                return found
        return None

    def _take(self, node):
        """Remembers what a variable is."""
        value = getattr(node, "value", None) if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) else \
            node.iter if isinstance(node, (ast.For, ast.comprehension)) else node.context_expr if isinstance(node, ast.withitem) else None
        if value is None:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None) or getattr(node, "optional_vars", None)]
        for target in filter(None, targets):
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and self._values.get(part.id) != "weights":
                    self._values[part.id] = self._kind(value)

    def _kind(self, value):
        """What an expression gives: the most delicate of what it is made of."""
        kinds = set()
        for node in ast.walk(value):
            if isinstance(node, ast.Name) and node.id in self._values:
                kinds.add(self._values[node.id])
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                kinds.add("weights" if node.attr in _OF_WEIGHTS else self._judge.of_attribute(node.attr))
            if isinstance(node, ast.Call) and any(isinstance(part, ast.Name) and part.id == "self" for part in node.args):
                kinds.add("weights")
        return next((kind for kind in ("weights", "trainer", "metric", "logger") if kind in kinds), "own")

    def _assigned(self, node):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
        for target in (part for target in targets for part in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])):
            name, variable = root(target), _variable(target)
            if name and (name == "trainer" or self._judge.of_attribute(name) == "weights" or self._judge._reads(name)):
                return f"(it changes self.{name}, which training may read)"
            if name is None and variable and not isinstance(target, ast.Name) and self._values.get(variable, "own") in ("weights", "trainer"):
                return f"(it changes a part of {variable})"
        return None

    def _called(self, node):
        if isinstance(node.func, ast.Attribute):
            return self._called_method(node, node.func.attr, node.func.value)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "setattr" or self._judge._training and name == "self":
            return f"(it calls {name}())"
        function = self._function.__globals__.get(name, getattr(builtins, name, None))
        return self._given_weights(node, name, function)

    def _called_method(self, node, name, receiver):
        if name in _CHANGES or name.endswith("_") and not name.endswith("__"):
            return f"(it calls {name}(), which may change what is trained)"
        if isinstance(receiver, ast.Name) and receiver.id == "self":
            return self._of_self(node, name)
        if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Name) and receiver.func.id == "super":
            return self._of_base(name)
        attribute, variable = root(receiver), _variable(receiver)
        if variable not in self._values and variable != "self":  # of a module of Python, or of a value that is made here
            known = isinstance(receiver, ast.Name) and receiver.id in self._function.__globals__
            return self._given_weights(node, name, getattr(self._function.__globals__[receiver.id], name, None) if known else torch.abs)
        kind = self._kind(receiver)
        if kind in ("metric", "logger") or kind == "weights" and (
                _reads_a_tensor(name) or name in _READS or _is_tensor(receiver) and hasattr(torch.Tensor, name)):
            return None
        if kind == "trainer" and any(isinstance(part, ast.Attribute) and part.attr in _LOGGERS for part in ast.walk(receiver)):
            return None
        if kind == "weights" and not self._judge._training and name == "step" or self._judge._training and kind in ("weights", "trainer"):
            return f"(it calls {name}() of {ast.unparse(receiver)}, which may change what is trained)"
        if attribute and name not in _READS and self._judge._training and self._judge._reads(attribute):
            return f"(it calls {name}() of self.{attribute}, which training may read)"
        return None

    def _of_self(self, node, name):
        own = self._judge._own(self._judge._module, name)
        if own is not None and name not in _OF_LIGHTNING:
            return self._judge._of_method(own, [self._kind(argument) for argument in node.args], self._depth + 1)
        if name in _OF_LIGHTNING or not self._judge._training or self._judge.of_attribute(name) == "metric":
            return None
        return f"(it calls self.{name}(), which may change what is trained)"

    def _of_base(self, name):
        """super().name()"""
        for part in type(self._judge._module).__mro__:
            function = vars(part).get(name)
            if function is not None and function is not self._function and self._judge._own(self._judge._module, name) is not function and \
                    "lightning" not in part.__module__.split(".")[0]:
                if found := self._judge._of_method(function, None, self._depth + 1):
                    return found
        return None

    def _given_weights(self, node, name, function):
        """What a function may change that is given weights, or self."""
        if not self._judge._training or _is_pure(function):
            return None
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            if isinstance(argument, ast.Name) and argument.id == "self" or self._kind(argument) in ("weights", "trainer"):
                return f"(it gives {ast.unparse(argument)} to {name}(), which may change it)"
        return None
