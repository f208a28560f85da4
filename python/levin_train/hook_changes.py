"""What a hook changes that training may notice, as its source shows: what it assigns and calls, and what the methods that it calls do."""

import ast
import builtins
import inspect
import sys

import torch

from levin_train import metric_objects
from levin_train.errors import is_installed, is_users

# Methods that change what is trained, or how, whatever they are called on.
_CHANGES = {"load_state_dict", "requires_grad_", "train", "eval", "freeze", "unfreeze", "add_param_group", "manual_backward", "register_parameter",
            "register_buffer", "apply", "to", "setattr", "__setattr__"}
_OF_WEIGHTS = {"parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children", "named_children", "state_dict",
               "optimizers", "lr_schedulers"}
# What gives the memory of a tensor again, or the parts of a container.
_SAME = {*_OF_WEIGHTS, "detach", "numpy", "view", "reshape", "flatten", "squeeze", "unsqueeze", "t", "items", "keys", "values", "get", "zip", "enumerate", "list",
         "tuple", "dict", "iter", "next", "reversed", "getattr", "vars"}
_READS = _OF_WEIGHTS | {"items", "keys", "values", "get", "get_last_lr", "numel"}
_OF_LIGHTNING = {"log", "log_dict", "print", "all_gather"} | _READS
_OF_TEXTS = {"startswith", "endswith", "format", "join", "lower", "upper", "strip", "replace"}
# Of self.trainer, what a hook may give to any function.
_NUMBERS = {"world_size", "num_devices", "global_rank", "local_rank", "node_rank", "is_global_zero", "global_step", "current_epoch", "max_epochs", "max_steps",
            "num_training_batches", "estimated_stepping_batches", "sanity_checking", "training", "validating"}
_LOGGERS = {"logger", "loggers", "callback_metrics", "logged_metrics", "progress_bar_metrics"}


def syntax(function):
    """The tree of the source of a function, without what is around it, or of code; None where there is none."""
    try:
        source = inspect.getsource(function)
        if not source[0].isspace():
            return ast.parse(source)
        return ast.Module(ast.parse("if True:\n" + source).body[0].body, [])  # comments may begin further to the left
    except (OSError, SyntaxError, TypeError):
        return None


def wrappers(function):
    """The user's own functions around a function, the outermost first, as decorators with functools.wraps() make them."""
    found = []
    while hasattr(function, "__wrapped__"):
        if hasattr(function, "__code__") and is_users(function.__code__.co_filename):
            found.append(function)
        function = function.__wrapped__
    return found


def root(target):
    """x of self.x, self.x.y and self.x[0]; None for a variable."""
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            return target.attr
        target = target.value
    return None


def _sets(tree, name):
    """Whether this source sets self.name, or a part of it."""
    return tree is None or any(root(target) == name for node in ast.walk(tree) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete))
                               for target in _targets(node))


def _targets(node):
    """What an assignment or a del changes."""
    targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
    return [part for target in targets for part in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]


def _variable(target):
    """x of x.y, x[0] and x.y()."""
    while isinstance(target, (ast.Attribute, ast.Subscript, ast.Call)):
        target = target.func if isinstance(target, ast.Call) else target.value
    return target.id if isinstance(target, ast.Name) else None


def _is_same(value):
    """Whether an expression makes nothing new, but names what is there: a change of it is one of what it comes from."""
    names = [getattr(part.func, "attr", getattr(part.func, "id", "")) for part in ast.walk(value) if isinstance(part, ast.Call)]
    return set(names) <= _SAME and not any(isinstance(part, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr)) for part in ast.walk(value))


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
    """Looks at hooks of one module. `own`: gives a method that the user has written; `mentions`: the methods that mention an attribute, with their
    names; `reads`: whether training reads an attribute; `training`: of hooks that run between steps of training, in which a forward() counts
    too, and of what their source calls everything must be known; `untried`: of those that could not be run, whose objects may do anything."""

    def __init__(self, module, own, mentions, reads, training, untried=False):
        self._module, self._own, self._mentions, self._reads, self._training, self._untried = module, own, mentions, reads, training, untried
        self.hook = ""  # that is looked at

    def change(self, name):
        """What a hook changes, in words; None when it is nothing that shows."""
        self.hook = name
        return self._of_method(self._own(self._module, name), None, 0)

    def _of_method(self, function, given, depth):
        """`given`: what its arguments are; None for a hook, whose arguments are the run's."""
        if function is None or depth > 4:
            return None if function is None or not self._training else "(it calls methods too deeply to be looked at)"
        around = (self._of_source(wrapper, wrapper.__code__, None, max(depth, 1)) for wrapper in wrappers(function))
        function = inspect.unwrap(function)
        return next(filter(None, around), None) or self._of_source(function, function, given, depth)

    def _of_source(self, function, source, given, depth):
        tree = syntax(source)
        if tree is None or not isinstance(tree.body[0], ast.FunctionDef):
            return "(its source is not there to be looked at)"
        names = [argument.arg for argument in tree.body[0].args.args[1:]]
        values = {name: "weights" if given is None and not name.endswith("_idx") else "own" for name in names}
        values.update(zip(names, given or ()))
        look = _Look(self, function, values, depth)
        return look.at(tree.body[0])

    def holds(self, test):
        """Whether a condition holds that compares attributes of the module alone, which no method sets but __init__(); None of another one."""
        names = {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"}
        allowed = (ast.Attribute, ast.Name, ast.Constant, ast.UnaryOp, ast.Not, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop, ast.expr_context)
        known = {"hparams", *(name for name, value in vars(self._module).items() if value is None or isinstance(value, (bool, int, float, str)))} - {"training"}
        if not names or not all(isinstance(node, allowed) and getattr(node, "id", "self") == "self" for node in ast.walk(test)) or \
                not names <= known or any(map(self._is_set, names)):
            return None
        try:
            return bool(eval(compile(ast.Expression(test), "<condition>", "eval"), {"self": self._module}))
        except Exception:  # of an object's own comparison
            return None

    def _is_set(self, name):
        """Whether a method of the user's may set self.name, or a part of it, after __init__()."""
        return any(method != "__init__" and _sets(syntax(function), name) for method, function in self._mentions(name))

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
        self._same = {}  # variables that name what is there, with the attribute of self that they come from, or None
        closure = inspect.getclosurevars(function).nonlocals if hasattr(function, "__wrapped__") else {}
        self._wrapped = {name for name, value in closure.items() if value is function.__wrapped__}
        self._counts = depth == 0 and judge.hook == "on_train_batch_start"  # what it returns
        self._imported = {}  # what the function itself imports, by name

    def at(self, tree):
        nodes = [node for statement in tree.body for node in self._reached(statement)]
        for node in nodes:  # variables first: a loop may use what it assigns further down
            self._take(node)
        for node in nodes:
            found = self._property(node) if isinstance(node, ast.Attribute) else \
                self._assigned(node) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)) else \
                self._called(node) if isinstance(node, ast.Call) else \
                "(it changes a global variable)" if isinstance(node, (ast.Global, ast.Nonlocal)) else \
                "(what it returns counts)" if isinstance(node, ast.Return) and node.value is not None and self._counts and \
                not (isinstance(node.value, ast.Constant) and node.value.value is None) else None
            if found:
                return found
        return None

    def _reached(self, node):
        """A statement and its parts, without those that a condition on attributes of the module rules out, which nothing sets later."""
        yield node
        parts = ast.iter_child_nodes(node)
        holds = self._judge.holds(node.test) if isinstance(node, ast.If) else None
        if holds is not None:
            parts = node.body if holds else node.orelse
        for part in parts:
            yield from self._reached(part)

    def _take(self, node):
        """Remembers what a variable is."""
        if isinstance(node, ast.ImportFrom) and node.module in sys.modules:
            self._imported.update({part.asname or part.name: getattr(sys.modules[node.module], part.name, None) for part in node.names})
        value = getattr(node, "value", None) if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) else \
            node.iter if isinstance(node, (ast.For, ast.comprehension)) else node.context_expr if isinstance(node, ast.withitem) else None
        if value is None:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None) or getattr(node, "optional_vars", None)]
        for target in filter(None, targets):
            for part in ast.walk(target):
                if not isinstance(part, ast.Name) or not isinstance(part.ctx, ast.Store):
                    continue
                if self._values.get(part.id) != "weights":
                    self._values[part.id] = self._kind(value)
                if _is_same(value):
                    attributes = [name for name in map(root, ast.walk(value)) if name and name not in _OF_WEIGHTS]
                    self._same[part.id] = next(iter(attributes), self._same.get(_variable(value)))

    def _kind(self, value):
        """What an expression gives: the most delicate of what it is made of."""
        kinds = set()
        nodes = list(ast.walk(value))
        plain = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in _LOGGERS | _NUMBERS and root(node) == "trainer"}
        for node in nodes:
            if id(node) in plain:
                continue
            if isinstance(node, ast.Name) and node.id in self._values:
                kinds.add(self._values[node.id])
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                kinds.add("weights" if node.attr in _OF_WEIGHTS else self._judge.of_attribute(node.attr))
            if isinstance(node, ast.Call) and any(isinstance(part, ast.Name) and part.id == "self" for part in node.args):
                kinds.add("weights")
        return next((kind for kind in ("weights", "trainer", "metric", "logger") if kind in kinds), "own")

    def _assigned(self, node):
        for target in _targets(node):
            name, variable = root(target), _variable(target)
            if name and (name == "trainer" or self._judge.of_attribute(name) == "weights" or self._judge._reads(name)):
                return f"(it changes self.{name}, which training may read)"
            if name is None and variable and not isinstance(target, ast.Name) and self._values.get(variable, "own") in ("weights", "trainer"):
                return f"(it changes a part of {variable})"
            if variable in self._same and (not isinstance(target, ast.Name) or isinstance(node, ast.AugAssign) and self._is_in_place(variable)):
                if self._values[variable] in ("weights", "trainer"):
                    return f"(it changes {variable}, which is trained)"
                if self._same[variable] and self._judge._reads(self._same[variable]):
                    return f"(it changes self.{self._same[variable]}, which training may read)"
        return None

    def _property(self, node):
        """What reading self.name does, where it is a property of the user's."""
        got = getattr(type(self._judge._module), node.attr, None) if isinstance(node.value, ast.Name) and node.value.id == "self" else None
        code = getattr(getattr(got, "fget", None), "__code__", None)
        if isinstance(got, property) and code and is_users(code.co_filename) and not is_installed(got.fget):
            return self._judge._of_method(got.fget, [], self._depth + 1)
        return None

    def _is_in_place(self, variable):
        """Whether += changes what a variable names, and not the variable alone, as with a number; so may a method of it."""
        name, module = self._same.get(variable), self._judge._module
        value = vars(module).get(name)
        return name is None or self._judge.of_attribute(name) == "weights" or value is not None and not isinstance(value, (int, float, complex, str, bytes, tuple))

    def _called(self, node):
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(argument, ast.Attribute) and argument.attr.endswith("_") and not argument.attr.endswith("__"):
                return f"(it gives {ast.unparse(argument)} to a function, which may change what is trained)"
        for keyword in node.keywords:
            if keyword.arg == "out" and self._kind(keyword.value) == "weights":
                return f"(it writes to {ast.unparse(keyword.value)}, with out=)"
        if isinstance(node.func, ast.Attribute):
            return self._called_method(node, node.func.attr, node.func.value)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self._wrapped:
            return None
        if name == "setattr" or self._judge._training and name == "self":
            return f"(it calls {name}())"
        function = self._imported.get(name) or self._function.__globals__.get(name, getattr(builtins, name, None))
        return self._given_weights(node, name, function)

    def _called_method(self, node, name, receiver):
        is_moved = name == "to" and (_is_tensor(receiver) or self._kind(receiver) != "weights")
        if name in _CHANGES and not is_moved or name.endswith("_") and not name.endswith("__"):
            return f"(it calls {name}(), which may change what is trained)"
        if isinstance(receiver, ast.Name) and receiver.id == "self":
            return self._of_self(node, name)
        if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Name) and receiver.func.id == "super":
            return self._of_base(name)
        variable = _variable(receiver)
        attribute = root(receiver) or (self._same.get(variable) if self._is_in_place(variable) else None)
        if variable not in self._values and variable != "self":  # of a module of Python, or of a value that is made here
            if name in _READS:
                return None
            known = isinstance(receiver, ast.Name) and receiver.id in self._function.__globals__
            return self._given_weights(node, name, getattr(self._function.__globals__[receiver.id], name, None) if known else torch.abs)
        kind = self._kind(receiver)
        if kind in ("metric", "logger") or kind == "weights" and (
                _reads_a_tensor(name) or name in _READS | _OF_TEXTS or _is_tensor(receiver) and hasattr(torch.Tensor, name)):
            return None
        if kind == "trainer" and any(isinstance(part, ast.Attribute) and part.attr in _LOGGERS for part in ast.walk(receiver)):
            return None
        if kind == "weights" and not self._judge._training and name == "step" or self._judge._training and kind in ("weights", "trainer"):
            return f"(it calls {name}() of {ast.unparse(receiver)}, which may change what is trained)"
        if attribute and name not in _READS and self._judge._training and self._judge._reads(attribute):
            return f"(it calls {name}() of self.{attribute}, which training may read)"
        return self._of_object(attribute, name) if self._judge._untried else None

    def _of_object(self, attribute, name):
        """What a method may change of an object that the module keeps."""
        value = vars(self._judge._module).get(attribute)
        is_known = value is None or type(value).__module__ in ("builtins", "collections", "logging", "pathlib", "datetime", "time")
        return None if is_known else f"(it calls {name}() of self.{attribute}, which may change what is trained)"

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
