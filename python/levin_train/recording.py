"""What a step does besides computing: what it logs, which numbers of the run it reads, and what it decides on values.

A step runs under a Recorder in the same way several times: as it is, to see what it does, and on tensors without values, to record its
graph. What it was told of values the first time, it is told again.
"""

import contextlib
import dataclasses

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from levin_train import courses, replacements, torch_patches
from levin_train.branches import gives_nothing, idle_condition, logging_condition, only_raises
from levin_train.errors import AnotherSource, asking_frame, calling_frame, calling_line, is_users, refuse
from levin_train.logs import Logs
from levin_train.origins import BATCH, RANDOM, WEIGHTS
from levin_train.packed import Packs
from levin_train.python_numbers import Number, numbers_in, with_tensors
from levin_train.rows import Counts
from levin_train.stand_ins import NUMBERS
from levin_train.values import Values

_KEEP = "Keep the tensor: self.log() takes it, and torch.cos() is there for math.cos()"
_INDEX_ADVICE = "Use torch.gather, index_select or a mask"
_INSTEAD_OF_NUMPY = "Use torch's function of that name, or, if the first step alone does this, run that step before the export"
_READS = {
    "__int__": ("a number is made of a tensor's value: what depends on it would be fixed in the package",
                "Compute with the tensor itself; for sizes that come from data use masks over a fixed length"),
    "__index__": ("a tensor's value is used as an index or a size, which would be fixed in the package", _INDEX_ADVICE),
    "__float__": ("a tensor's value is read as a Python number", _KEEP),
    "__complex__": ("a tensor's value is read as a Python number", "Keep the tensor"),
    "__contains__": ("`in` makes a Python value of tensors", "Use (x == value).any() with torch.where"),
    "tolist": ("tensors are read as a list", "Keep tensors"),
    "numpy": ("a tensor is given to numpy", _INSTEAD_OF_NUMPY),
    "__array__": ("a tensor is given to numpy", _INSTEAD_OF_NUMPY),
    "equal": ("torch.equal() makes a Python value of tensors", "Use (a == b).all() with torch.where"),
    "allclose": ("torch.allclose() makes a Python value of tensors", "Use torch.isclose(a, b).all() with torch.where"),
    "one_hot": ("one_hot() without num_classes makes a tensor whose size comes from data", "Give it num_classes"),
}
# Of a number of the run, which Python asks for a value of its own.
_OF_THE_RUN = {
    "__float__": "Leave out float(), and compute with the number as it is; functions of math take it where the file imports math at its top, "
                 "and torch.tensor() makes a tensor of it",
    "__int__": "Leave out int(), or use round() or math.floor()",
    "__index__": "Index a tensor with it: torch.tensor(values)[number]; for sizes use a mask",
    "__array__": "Use Python's operators, or a function of math or torch",
    "__hash__": "Compute with it, or use a tensor and torch.gather",
}
_SEVERAL = ("If it is the length to which a batch is padded, give export() several batches of your loader, batches=[…]: a number that is a size of the "
            "batch in each of them follows it. Else use masks over a fixed length, or torch.gather")
_VARIES = object()
_PICKS = ("nonzero", "argwhere", "masked_select", "unique")  # what they give has as many rows as the data say
_OF_RATES = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_GENERATOR_ADVICE = "Leave it out: levin draws from the run's seed. Numbers that are the same in each step are a buffer, drawn in __init__"
_SIZES = (torch.SymInt, torch.SymFloat)
_MAKES_TENSORS = ("tensor", "as_tensor", "asarray", "scalar_tensor")


# Functions that take sizes, and the first argument that is one.
_OF_SIZES = {**dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "arange"), 0),
             **dict.fromkeys(("new_zeros", "new_ones", "new_empty", "expand", "view", "reshape", "repeat"), 1)}


@dataclasses.dataclass
class Decision:
    """A condition on values: the step took one way. `checked`: the package checks that a batch takes it too."""

    taken: bool
    where: str
    checked: bool
    value: int | None = None  # the number that it must be
    follows: str = ""  # the dimension of the batch whose size the number is instead
    what: str = ""  # of a condition on numbers of the run alone, on which courses of the step part
    kept: frozenset[str] = frozenset()  # of one on weights alone that no optimizer changes: their names


class Recorder(Logs, TorchFunctionMode):
    """While it is active: calls of log() and conditions are recorded. `origins`: of the tensors, where they have values; `earlier`: the
    recorder of such a run, whose answers are given again; `compared`: whether it is one of several batches that are all run."""

    def __init__(self, numbers, training, origins=None, earlier=None, prints=False, compared=False):
        TorchFunctionMode.__init__(self)
        Logs.__init__(self, {name: Number(tensor, self) for name, tensor in numbers.items()})
        self.training = training
        self.explores = earlier is None  # it runs on tensors with values
        self.answers = []
        self.conditions = []  # tensors, of the decisions that are checked
        self.turn_conditions = []  # tensors, of the decisions at which courses part
        self.turn_names = set()  # of the numbers of the run in them
        self.trained = {}  # names of the parameters by identity
        self.later = {}  # what weights are after the step, by name
        self.sizes = {}  # of the dimensions of the batch that vary, by name
        self.sources = ()  # names of the modules of Python in which int() and float() take numbers of the run
        self.met = set()  # Python's numbers that numbers of the run were computed with
        self.notes = []
        self.origins = origins
        self.packs = Packs(self.decide)
        self.counts = Counts(earlier.counts.found if earlier else None)
        self.picked_rows = ""  # the first line that takes rows by a mask: as many as the data say
        self._earlier = earlier
        self._compared = earlier._compared if earlier else compared  # there are several batches, which show what is the same in all
        self._answering = False
        self._repeated = None
        self._prints = prints
        self._logging_lines = set(earlier._logging_lines) if earlier else set()  # (file, number), of branches that only log

    @property
    def decisions(self):
        return [answer for answer in self.answers if isinstance(answer, Decision) and answer.checked]

    @property
    def turns(self):
        """Decisions at which courses of the step part."""
        return [answer for answer in self.answers if isinstance(answer, Decision) and answer.what]

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def print(self, *values, **options):
        self.note(f"{calling_line()}: print() prints when the module is exported, and the package does not")
        if self._prints:
            print(*values, **options)

    def number_of(self, tensor):
        """What item() gives: a Number, or Python's own where the value is always the same."""
        value = self._answer(lambda: _VARIES if self.origins.of(tensor) else _value(tensor))
        return Number(tensor, self) if value is _VARIES else value

    def whole_of(self, tensor):
        """What int() gives of a tensor, where it is called by the user's code: a size, too."""
        return self._read("__int__", int, (tensor,), {})

    def shown(self, tensor):
        return self._answer(lambda: _value(tensor))

    def read(self, how, tensor):
        """The value of a number that changes, for Python. Refuses it, but for a whole number that is the same in several batches."""
        source = calling_frame().f_globals.get("__name__") if how in ("__float__", "__int__") and calling_frame() else None
        if source not in (None, *self.sources):
            raise AnotherSource(source)
        if self._is_whole(how, tensor):
            return self._whole(tensor)
        origins = self.origins.of(tensor) if self.origins else set()
        if "dataloader_idx" in origins:
            refuse("the value of dataloader_idx is read, which would be fixed in the package",
                   "Log one name for all loaders: levin adds the loader's number to it, as Lightning does")
        if origins & set(NUMBERS) or how not in _READS:
            refuse(f"the value of {next((name for name in NUMBERS if name in origins), 'a number')} is read, which would be fixed in the package",
                   _OF_THE_RUN[how])
        if RANDOM in origins and BATCH not in origins:
            refuse("a random number is made Python's own, and would be the same in each step of the package",
                   "Compute with it as a tensor: torch.where(torch.rand(()) < p, a, b), or x[:, start + torch.arange(count)] for a part")
        refuse(*_READS[how] if how not in ("__int__", "__index__") or origins != {BATCH} or self._compared else (_READS[how][0], _SEVERAL))

    def argument(self, function, tensor):
        """The value of a number for a function of torch that takes only one of Python."""
        if self._is_whole("__index__", tensor):
            return self._whole(tensor)
        origins = self.origins.of(tensor) if self.origins else set()
        of = next((f", of {name}" for name in (*NUMBERS, BATCH, RANDOM, WEIGHTS) if name in origins), "")
        if origins == {BATCH} and not self._compared and not tensor.is_floating_point():
            refuse(f"{function}() takes a number that stays the same, and gets one that changes{of}", _SEVERAL)
        refuse(f"{function}() takes a number that stays the same, and gets one that changes{of}",
               courses.FREEZE if function == "requires_grad_" else _INDEX_ADVICE if not tensor.is_floating_point() else "Write what it computes with tensors, or give it a fixed number")

    def _is_whole(self, how, tensor):
        if not self._compared or how not in ("__int__", "__index__") or tensor.is_floating_point() or tensor.numel() != 1:
            return False
        told = self._repeated or (self._earlier.answers[len(self.answers):] if self._earlier else [])
        return getattr(told[0], "value", None) is not None if told else self._earlier is None and self.origins.of(tensor) == {BATCH}

    def _size(self, value):
        """An argument that is a size: torch reads the value of a tensor without asking."""
        tensor = value.tensor if isinstance(value, Number) else value
        return self._whole(tensor) if isinstance(tensor, torch.Tensor) and self._is_whole("__index__", tensor) else value

    def _whole(self, tensor):
        """Gives Python a number of the batch, which is a condition of the package."""
        decision = self._answer(lambda: Decision(True, calling_line(), True, int(_value(tensor))))
        number = self.sizes[decision.follows] if decision.follows else decision.value
        if self._repeated is None:
            self.conditions.append((tensor == torch.scalar_tensor(number, dtype=tensor.dtype)).detach().reshape(()))
        return number

    def decide(self, condition, noted=False):
        """Which way the step goes. `noted`: it is a condition of the user's, of which an export says that it is kept."""
        decision = self._answer(lambda: self._decision(condition, noted))
        if self._repeated is None and (decision.checked or decision.what):
            (self.conditions if decision.checked else self.turn_conditions).append(condition.detach().reshape(()).to(torch.bool))
        return decision.taken

    def require(self, condition, otherwise):
        """What must hold where the step comes by here."""
        decision = self._answer(lambda: Decision(bool(condition), calling_line(), True))
        if not decision.taken:
            raise IndexError(otherwise)
        if self._repeated is None:
            self.conditions.append(condition.detach().reshape(()))

    def decide_unknown(self, what, advice):
        return self._answer(lambda: self._of_logging() or refuse(what, advice)).taken

    @contextlib.contextmanager
    def repeating(self, answers):
        """While it lasts, a part of the step runs again, and is told what it was told before."""
        self._repeated = list(answers)
        try:
            yield
        finally:
            self._repeated = None

    def _answer(self, first):
        """What the step is told of a value: of `first()`, or what it was told in the earlier run."""
        if self._repeated is not None:
            return self._repeated.pop(0)
        if self._answering:  # idle_condition() tries a part of a condition, which is none that it can know
            raise RuntimeError("a condition within a condition")
        if self._earlier is None:
            self._answering = True
            try:
                with torch._C.DisableTorchFunction():
                    self.answers.append(first())
            finally:
                self._answering = False
        elif len(self.answers) < len(self._earlier.answers):
            self.answers.append(self._earlier.answers[len(self.answers)])
        else:
            refuse("the step decides on values in another order when it is run again", "Make it deterministic for one batch")
        return self.answers[-1]

    def _decision(self, condition, noted):
        origins = self.origins.of(condition)
        named = [name for name in NUMBERS if name in origins]
        if named:
            what = f"what the step does depends on {named[0]}, which changes in a run"
            found = self._of_logging()
            if found is None and not origins <= set(NUMBERS):
                refuse(what, courses.ADVICE)
            self.turn_names |= set(named) if found is None else set()
            return found or Decision(bool(condition), calling_line(), False, what=what)
        if RANDOM in origins and BATCH not in origins:
            refuse("the step decides on a random number, which is drawn again in each step",
                   "Compute both ways, and take one with torch.where; or set the probability (as layerdrop) to 0")
        taken, frame = bool(condition), calling_frame()
        if origins and not taken and self.training and frame and gives_nothing(frame):
            self.note(f"{calling_line()}: a batch for which this holds ends the run. Lightning leaves such a batch out: return its loss times 0 for that")
        elif origins and noted and (asks := asking_frame()) and not only_raises(asks.f_code.co_filename, asks.f_lineno):
            self.note(f"{calling_line()}: this condition on values is {taken} for the example, and fixed so in the package: a batch for which it is {not taken} "
                      "ends the run. Compute both ways, and take one with torch.where, if there are such batches")
        return Decision(taken, calling_line(), bool(origins), kept=frozenset(self.origins.kept_in(condition) if origins == {WEIGHTS} else ()))

    def _of_logging(self):
        """Which way it goes where a branch does nothing but log, or is not taken whatever the condition is. None where it does more."""
        reason = idle_condition(calling_frame())
        if reason:
            self.note(f"{calling_line()}: this branch is left out of the package, where {reason} does not hold")
            return Decision(False, calling_line(), False)
        taken, body = logging_condition(calling_frame())
        if taken is None:
            return None
        self._logging_lines |= body
        self.note(f"{calling_line()}: this branch only logs: the package logs in every step")
        return Decision(taken, calling_line(), False)

    def log(self, name, *args, **options):
        super().log(name, *args, **options)
        frame = calling_frame()
        if frame and (frame.f_code.co_filename, frame.f_lineno) in self._logging_lines:
            self.optional.add(name)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name == "__bool__" and isinstance(args[0], torch.Tensor):
            return self.decide(args[0], noted=True)
        if name == "item":
            return self.number_of(args[0])
        if name == "__len__" and args[0].dim() > 0:
            return args[0].shape[0]
        if name in _OF_RATES and numbers_in((args, kwargs)):
            refuse(f"the rate of {name}() changes in a run, and would be fixed in the package",
                   "Write it of random numbers: x * (torch.rand_like(x) >= rate) / (1 - rate)")
        if name == "bincount" and (counts := replacements.bincount(*args, **kwargs)) is not None:
            return counts if self.decide((args[0] < counts.shape[0]).all()) else function(*args, **kwargs)
        if isinstance(kwargs.get("generator"), torch.Generator) and kwargs["generator"] is not torch.default_generator:
            refuse(f"{name}() draws of a generator of its own, which a package does not have", _GENERATOR_ADVICE)
        if name in replacements.FUNCTIONS and (found := replacements.FUNCTIONS[name](*args, **kwargs)) is not None:
            return found
        if name == "__deepcopy__" and args[0].is_leaf:  # copies memory, which tensors without values have not
            return args[1].setdefault(id(args[0]), args[0].detach().clone().requires_grad_(args[0].requires_grad))
        if name in ("__format__", "__repr__") and isinstance(args[0], torch.Tensor):
            return self._answer(lambda: function(*args, **kwargs))
        if name == "__get__" and function == torch.Tensor.grad.__get__:
            self._check_gradient(args[0])
        if function == torch.Tensor.data.__set__ and args[0].shape == args[1].shape and args[0].dtype == args[1].dtype:
            return _assign(*args)
        if name == "backward" and calling_line():
            refuse("the step calls backward() itself",
                   "Return the loss, whose gradients are computed by levin; a gradient within the step is torch.autograd.grad(loss, x)[0]")
        if name in _MAKES_TENSORS and args and isinstance(args[0], Values):
            return args[0].as_tensor(**kwargs)
        if name in _MAKES_TENSORS and (numbers_in(args[:1]) or name != "scalar_tensor" and _sizes_in(args[:1])):
            return self._tensor_of(args[0], kwargs.get("dtype"))
        if name in _OF_SIZES and self._compared:
            args = (*args[:_OF_SIZES[name]], *pytree.tree_map(self._size, args[_OF_SIZES[name]:]))
        if name == "_pack_padded_sequence":
            return self.packs.pack(function, *args)
        if name == "_pad_packed_sequence":
            return self.packs.pad(function, *args)
        if name in _PICKS or name == "where" and len(args) + len(kwargs) == 1:
            return self._picked(function, args, kwargs)
        if name == "__getitem__":
            args = (args[0], tuple(map(_one_tensor, args[1])) if isinstance(args[1], tuple) else _one_tensor(args[1]))
        if name == "__getitem__" and _picks_rows(args[1]):
            self.picked_rows = self.picked_rows or calling_line()
        if name in _READS and not (name == "one_hot" and _has_classes(*args, **kwargs)):
            return self._read(name, function, args, kwargs)
        return function(*args, **kwargs)

    def _check_gradient(self, tensor):
        """Refuses reads of a parameter's gradient, but for those of torch's zero_grad()."""
        frame = calling_frame() if id(tensor) in self.trained else None
        if frame is None or _calls_zero_grad():
            return
        refuse(f"the step reads the gradient of {self.trained[id(tensor)]}, which is that of the step before in Lightning, and none in a package",
               "A gradient of this step is torch.autograd.grad(loss, parameters); gradients before the optimizer's step are logged in C++, in "
               "on_before_optimizer_step")

    @staticmethod
    def seeds_refused():
        """While it lasts, the user's code may not set the seed."""
        def refused(*_):
            refuse("the step sets the seed of random numbers, which a package cannot do", _GENERATOR_ADVICE)

        return torch_patches.seeds(refused)

    def _picked(self, function, args, kwargs):
        """What has as many rows as the data say; of tensors that are the same in each step, that."""
        found = self._answer(lambda: _VARIES if self.origins.of(args, kwargs) else function(*args, **kwargs))
        if found is not _VARIES:
            return found
        self.picked_rows = self.picked_rows or calling_line()
        if function in (torch.masked_select, torch.Tensor.masked_select):  # its operator fixes sizes
            values, mask = torch.broadcast_tensors(*args, *kwargs.values())
            return values[mask]
        return function(*args, **kwargs)

    def _tensor_of(self, values, dtype):
        def built(value):
            if isinstance(value, (list, tuple)):
                return torch.stack(list(map(built, value)))
            return _of_size(value) if isinstance(value, _SIZES) else torch.as_tensor(value)

        result = built(with_tensors(values))
        return result if dtype is None else result.to(dtype)

    def _read(self, name, function, args, kwargs):
        what, advice = _READS[name]
        if name in ("tolist", "numpy") and args[0].dim() > 0:
            found = self._answer(lambda: _VARIES if self.origins.of(args) else function(*args, **kwargs))
            return Values(args[0], what, advice) if found is _VARIES else found
        if args and self._is_whole(name, args[0]):
            return self._whole(args[0])
        if self._earlier is None and self.origins.of(args, kwargs):
            if name == "__float__" and asking_frame().f_code.co_filename.endswith("/nn/modules/batchnorm.py"):
                what, advice = ("a normalization with momentum=None averages over all batches, by a number that is read as one of Python",
                                "Give it a momentum: nn.BatchNorm1d(features, momentum=0.1)")
            elif name in ("__int__", "__index__") and self.origins.of(args) == {WEIGHTS}:
                what, advice = ("a number is made of the value of a buffer or a parameter, and would be fixed in the package",
                                "Index with a tensor: self.queue[(self.pointer + torch.arange(count)) % size] = rows")
            elif name in ("__int__", "__index__") and self.origins.of(args) == {BATCH} and not self._compared:
                advice = _SEVERAL
            refuse(what, advice)
        return self._answer(lambda: function(*args, **kwargs))


def _sizes_in(values):
    return any(isinstance(leaf, _SIZES) for leaf in pytree.tree_leaves(values))


def _of_size(size):
    """A tensor of a size, which stays open in it."""
    return torch.scalar_tensor(size, dtype=torch.int64 if isinstance(size, torch.SymInt) else torch.get_default_dtype())


def _calls_zero_grad():
    frame = asking_frame()
    while frame is not None and not is_users(frame.f_code.co_filename):
        if frame.f_code.co_name == "zero_grad":
            return True
        frame = frame.f_back
    return False


def _assign(tensor, other):
    """tensor.data = other: another memory for a tensor cannot be recorded, and other values can."""
    same = tensor.untyped_storage()._cdata == other.untyped_storage()._cdata and tensor.storage_offset() == other.storage_offset()
    if not same or tensor.stride() != other.stride():
        tensor.detach().copy_(other)


def _one_tensor(index):
    """A list of numbers that are tensors as one tensor: torch reads a list's own, which those without values have not."""
    if not isinstance(index, list) or not any(isinstance(part, torch.Tensor) and part.dim() == 0 for part in index):
        return index
    return torch.stack([torch.as_tensor(part) for part in index])


def _picks_rows(index):
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in parts)


def _has_classes(labels, num_classes=-1):
    return num_classes != -1


def _value(tensor):
    with torch._C.DisableTorchFunction():
        return tensor.item()
