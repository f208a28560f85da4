"""Branches of a step that do nothing but log: `if batch_idx % 100 == 0: self.log(…)`. A package takes them in every step."""

import ast
import functools

_LOGS = ("log", "log_dict", "print")
_LOGGERS = ("logger", "loggers", "logging", "warnings")


@functools.lru_cache(maxsize=None)
def syntax_of_file(filename):
    """The syntax of a file of Python, or None."""
    try:
        with open(filename, encoding="utf-8") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return None


def _around(tree, kinds, line, part=lambda node: node):
    """The smallest node of these kinds whose `part` has the line."""
    found = [node for node in ast.walk(tree) if isinstance(node, kinds) and part(node).lineno <= line <= part(node).end_lineno]
    return max(found, key=lambda node: (node.lineno, node.col_offset), default=None)


def _names_of(expression):
    """The names of a chain: self.logger.experiment gives self, logger, experiment."""
    names = []
    while isinstance(expression, (ast.Attribute, ast.Call, ast.Subscript)):
        if isinstance(expression, ast.Attribute):
            names.append(expression.attr)
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return [*([expression.id] if isinstance(expression, ast.Name) else []), *reversed(names)]


def _logs(call):
    names = _names_of(call.func)
    return bool(names) and (names[-1] in _LOGS or any(name in _LOGGERS for name in names))


def _targets(node):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    inner = [part for target in targets for part in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]
    return inner if all(isinstance(part, ast.Name) for part in inner) else None


def _only_logs(statements, read_elsewhere):
    for node in statements:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.For)):
            targets = _targets(node)
            if targets is None or any(target.id in read_elsewhere for target in targets):
                return False
            if isinstance(node, ast.For) and not _only_logs([*node.body, *node.orelse], read_elsewhere):
                return False
        elif isinstance(node, (ast.If, ast.With)):
            if not _only_logs([*node.body, *getattr(node, "orelse", [])], read_elsewhere):
                return False
        elif not (isinstance(node, ast.Pass) or isinstance(node, ast.Expr) and (
                isinstance(node.value, ast.Constant) or isinstance(node.value, ast.Call) and _logs(node.value))):
            return False
    return True


def _wanted(test, position):
    """What the condition at this position must be for `test` to hold: None where that is not certain. `position` is None where Python
    does not say which part of the test it is: then all parts must want the same."""
    if isinstance(test, ast.BoolOp):
        wanted = {_wanted(part, position) for part in test.values if position is None or _has(part, position)}
        return wanted.pop() if len(wanted) == 1 else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _wanted(test.operand, position)
        return None if inner is None else not inner
    return True if isinstance(test, (ast.Compare, ast.Name, ast.Call, ast.BinOp, ast.Attribute)) else None


def _position(frame):
    """Line and column of what a frame is running."""
    if not hasattr(frame.f_code, "co_positions"):  # before Python 3.11
        return frame.f_lineno, -1
    positions = list(frame.f_code.co_positions())
    line, _, column, _ = positions[frame.f_lasti // 2]
    return line or frame.f_lineno, -1 if column is None else column


def idle_condition(frame):
    """Of an `if a and b`, in which a frame is deciding on `a`: the source of a `b` that does not hold, whatever `a` is. An empty string
    where there is none."""
    tree = frame and syntax_of_file(frame.f_code.co_filename)
    branch = tree and _around(tree, ast.If, frame.f_lineno, lambda node: node.test)
    if not branch or not isinstance(branch.test, ast.BoolOp) or not isinstance(branch.test.op, ast.And):
        return ""
    position = _position(frame)
    for operand in branch.test.values:
        if (operand.end_lineno, operand.end_col_offset) <= position or _has(operand, position):
            continue
        try:
            holds = eval(compile(ast.Expression(operand), "<condition>", "eval"), frame.f_globals, frame.f_locals)
        except Exception:  # of an operand that is for the case in which those before it hold
            return ""
        if holds is None or holds is False or type(holds).__name__ == "Logger" and not holds:
            return ast.unparse(operand)
    return ""


def _has(node, position):
    return (node.lineno, node.col_offset) <= position < (node.end_lineno, node.end_col_offset)


def logging_condition(frame):
    """What a condition that a frame is deciding must be so that a branch runs which only logs, and the lines of that branch, as (file,
    number). None instead of the first: it decides on more."""
    tree = frame and syntax_of_file(frame.f_code.co_filename)
    branch = tree and _around(tree, ast.If, frame.f_lineno, lambda node: node.test)
    function = tree and _around(tree, (ast.FunctionDef, ast.AsyncFunctionDef), frame.f_lineno)
    if not branch or not function or branch.orelse:
        return None, set()
    position = _position(frame)
    if not _has(branch.test, position):
        if position[1] >= 0 and position != (branch.lineno, branch.col_offset):
            return None, set()  # a condition within the branch, on the same line
        position = None
    inside = set(map(id, ast.walk(branch))) - set(map(id, ast.walk(branch.test)))
    read_elsewhere = {node.id for node in ast.walk(function)
                      if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Load, ast.Del)) and id(node) not in inside}
    if not _only_logs(branch.body, read_elsewhere):
        return None, set()
    lines = range(branch.body[0].lineno, branch.body[-1].end_lineno + 1)
    return _wanted(branch.test, position), {(frame.f_code.co_filename, line) for line in lines}


def only_raises(filename, line):
    """Whether what is decided in this line is an `assert`, or whether a branch is taken that only raises."""
    tree = syntax_of_file(filename)
    if tree is None:
        return False
    branch = _around(tree, ast.If, line, lambda node: node.test)
    return _around(tree, ast.Assert, line) is not None or branch is not None and not branch.orelse and isinstance(branch.body[0], ast.Raise)


def gives_nothing(frame):
    """Whether a frame is deciding on a branch of training_step that returns no loss."""
    tree = frame.f_code.co_name == "training_step" and syntax_of_file(frame.f_code.co_filename)
    branch = tree and _around(tree, ast.If, frame.f_lineno, lambda node: node.test)
    last = branch.body[-1] if branch else None
    return isinstance(last, ast.Return) and (last.value is None or isinstance(last.value, ast.Constant) and last.value.value is None)
