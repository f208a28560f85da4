"""What a step sees as its module, trainer, optimizer and logger while it is recorded, or run as the reference."""

import contextlib
import inspect
import sys
import types

from levin_train.errors import calling_line, line_of, refuse
from levin_train.python_numbers import Unknown

# Numbers that a run changes. A step may compute with them: they are inputs of the package.
NUMBERS = ("batch_idx", "dataloader_idx", "global_step", "current_epoch")
_logs = []  # of the steps that are running
_STAGES = {"training_step": "training", "validation_step": "validating", "test_step": "testing", "predict_step": "predicting"}
MANUAL = ("Manual optimization cannot be exported. Where it does what automatic optimization does (one optimizer, and zero_grad(), backward() and "
          "step() of one loss), return the loss instead; else write this training_step in C++, with levin::CompiledFunction for its parts")
_RATE = "A schedule sets it (configure_optimizers), and levin's LearningRateMonitor logs it"
_OF_THE_RUN = "Put the value into __init__, or compute with self.global_step or self.current_epoch"


@contextlib.contextmanager
def logging_to(log):
    _logs.append(log)
    try:
        yield
    finally:
        _logs.pop()


def log(name, value, **options):
    """self.log() for a step that is not of a LightningModule."""
    _logs[-1].log(name, value, **options)


def trainer_advice(name):
    return (f'Give export() trainer={{"{name}": …}}: the value is fixed in the package, and the YAML gets it where it is an option of '
            f"the Trainer. Or: {_OF_THE_RUN[0].lower()}{_OF_THE_RUN[1:]}")


class _Optimizer:
    """What self.optimizers() gives: a step may look at its rates, in order to log them."""

    def __init__(self, log):
        self.__dict__["_rate"] = Unknown("the learning rate", _RATE, log.decide_unknown)
        self.__dict__["_log"] = log

    @property
    def param_groups(self):
        return [_Group({"lr": self._rate, "initial_lr": self._rate}, self._log)]

    @property
    def optimizer(self):
        return self

    def get_last_lr(self):
        return [self._rate]

    _last_lr = property(get_last_lr)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"the step uses {name} of its optimizer or schedule, which a package cannot do", MANUAL)

    def __setattr__(self, name, value):
        refuse(f"the step sets {name} of its optimizer", _RATE)


class _Group(dict):
    """A group of an optimizer's parameters."""

    def __init__(self, rates, log):
        super().__init__(rates)
        self._log = log

    def __missing__(self, key):
        return Unknown(f"the optimizer's {key}", "Put the value into __init__", self._log.decide_unknown)

    def __setitem__(self, key, value):
        refuse(f"the step sets {key} of its optimizer", _RATE)


class _Schedule(_Optimizer):
    """An entry of self.trainer.lr_scheduler_configs."""

    @property
    def scheduler(self):
        return self


def _state(stage):
    """self.trainer.state, with Lightning's own names for what a run does."""
    states = next((sys.modules[name] for name in ("lightning.pytorch.trainer.states", "pytorch_lightning.trainer.states") if name in sys.modules), None)
    if states is None or stage is None:
        return {}
    function = {"testing": "TESTING", "predicting": "PREDICTING"}.get(stage, "FITTING")
    return {"state": types.SimpleNamespace(stage=getattr(states.RunningStage, stage.upper()), fn=getattr(states.TrainerFn, function))}


class Trainer:
    """self.trainer: the numbers of the run, and values that `given` fixes. What else it is asked for is Unknown."""

    def __init__(self, module, log, given, stage=None):
        members = {"is_global_zero": True, "sanity_checking": False, "model": module, "lightning_module": module,
                   **{each: each == stage for each in _STAGES.values()}, **_state(stage), **given}
        self.__dict__.update(_log=log, _members=members)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._members:
            return self._members[name]
        if name in NUMBERS:
            return self._log.number(name)
        if name == "optimizers":
            return [_Optimizer(self._log)]
        if name == "lr_scheduler_configs":
            return [_Schedule(self._log)]
        if name in ("logger", "loggers"):
            logger = Logger(f"self.trainer.{name}", "", self._log)
            return logger if name == "logger" else [logger]
        return Unknown(f"self.trainer.{name}", trainer_advice(name), self._log.decide_unknown)

    def __setattr__(self, name, value):
        refuse(f"the step sets self.trainer.{name}, which a package cannot do", "End a run with the callback EarlyStopping, or in C++")


class Logger(Unknown):
    """self.logger: what a step does with it is left out, with a note."""

    def __init__(self, what, advice, log):
        super().__init__(what, advice, log)

    def __call__(self, *_, **__):
        what, _, log = self._levin
        log.note(f"{calling_line()}: {what}() is left out of the package: levin's loggers get what self.log() logs, and images by log_image() in C++")
        return self

    def __bool__(self):
        return False

    def _read(self, *_, **__):
        refuse(f"the module computes with {self._levin[0]}, which a package does not have", "Log values with self.log()")

    __float__ = __int__ = __index__ = __iter__ = __len__ = __array__ = __fspath__ = __contains__ = _read


def _refused(name, advice):
    def method(self, *args, **kwargs):
        refuse(f"the step calls self.{name}(), which a package cannot do", advice)

    return method


def _passing_on(module_class):
    """The class of a class whose attributes are set in `module_class`, as if that were meant."""
    return type(type(module_class).__name__, (type(module_class),), {
        "__setattr__": lambda _, name, value: setattr(module_class, name, value),
        "__delattr__": lambda _, name: delattr(module_class, name)})


def stand_in_class(module_class, log, step_name, trainer):
    """The class of a LightningModule while its step runs. `log`: what log() records in, and numbers of the run come from."""
    stage = _STAGES.get(step_name)
    members = {
        "log": lambda self, *args, **options: log.log(*args, **options),
        "log_dict": lambda self, *args, **options: log.log_dict(*args, **options),
        "print": lambda self, *args, **options: log.print(*args, **options),
        "global_step": property(lambda self: log.number("global_step")),
        "current_epoch": property(lambda self: log.number("current_epoch")),
        "trainer": property(lambda self: Trainer(self, log, trainer, stage)),
        "logger": property(lambda self: Logger("self.logger", "", log)),
        "loggers": property(lambda self: [Logger("self.loggers[0]", "", log)]),
        "all_gather": _refused("all_gather", "Log values: levin reduces them over ranks"),
        "optimizers": lambda self, *_, **__: _Optimizer(log),
        "lr_schedulers": lambda self: _Schedule(log),
        "manual_backward": _refused("manual_backward", MANUAL),
        "toggle_optimizer": _refused("toggle_optimizer", MANUAL),
    }
    return _passing_on(module_class)(module_class.__name__, (module_class,), {"__module__": module_class.__module__, **members})


def call_step(function, module, batch, log):
    """Calls a step as Lightning does: with the number of the batch, and of its loader, where it takes them."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(parameter.name == "dataloader_iter" for parameter in parameters):
        refuse("the step takes dataloader_iter", "Take a batch", line_of(function))
    count = sum(parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters) - 2
    if any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters):
        count = max(1, count)
    names = NUMBERS[:max(0, min(2, count))]
    return function(module, batch, *(log.numbers[name] for name in names))
