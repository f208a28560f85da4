"""What an export changes in torch while it lasts: every patch, and the versions of torch for which they are tested.

| patch | symbol of torch | why | it can go when this passes without it (tests/exported) |
| --- | --- | --- | --- |
| `attention()` | `F.multi_head_attention_forward` | it makes one dimension of the batch and the heads, which Inductor cannot divide where the batch is open | `export_packages_test.py test_attention_of_all_kinds` |
| `recurrent_layers()` | `_decomp.decompositions._rnn_helper` | it leaves out dropout between layers | `export_packages_test.py test_lstm_over_a_length_that_varies` |
| `recurrent_layers()` | `_decomp.decompositions.one_layer_rnn` | it makes a graph of each step of a sequence, which compiles for minutes and fixes the length | `export_packages_test.py test_other_layers_over_a_length_that_varies` |
| `recurrent_layers()` | `_decomp.decompositions.select_one_layer_lstm_function` | its layer is one for inference, without a backward pass | the same |
| `recurrent_modules()` | `forward` of `nn.LSTM`, `nn.GRU` and `nn.RNN` | what is packed has as many rows as the data say, and its operators loop over the data's lengths | `export_packed_test.py` |
| `weights()` | `nn.utils.stateless._reparametrize_module` (private) | `functional_call()` calls `forward()` alone, and a step is another method | `export_test.py` |
| `open_sizes()` | `fx.experimental._config.backed_size_oblivious` (private) | a size of 0 or 1 in the example would fix a dimension | `export_test.py test_conditions` |
| `checkpoint()` | `utils.checkpoint.CheckpointFunction`, `_checkpoint_without_reentrant_generator` (private) | what they run again in the backward pass draws other random numbers in a graph | `export_gradients_test.py Checkpointing` |
| `sizes_of_data_in_backward()` | `fx.experimental.symbolic_shapes.ShapeEnv.evaluate_sym_node` (private) | backward passes have shortcuts for tensors of one element, and ask for sizes that come from data | `export_networks_test.py test_rows_that_are_summed_up` |
| `sizes_of_data()` | the same, `uninteresting_files()` (private) | a branch on the number of rows that were taken by their values has no answer in a graph | `export_networks_test.py test_branches_on_how_many_rows_are_taken` |
| `compiling()` | `compiler._is_compiling_flag`, `_is_exporting_flag` (private) | libraries decide on values unless they are compiled, and then on tensors without values not; what `torch.compile()` has wrapped cannot be recorded else | `export_networks_test.py test_what_libraries_ask_of_a_compiler`, `export_steps_test.py test_what_is_compiled_already` |
| `contraction_paths()` | `backends.opt_einsum.get_opt_einsum` | opt_einsum makes Python numbers of sizes | `export_networks_test.py test_einsum_of_three` |
| `ctc_loss()` | `F.ctc_loss` | its operator gives a tensor whose size comes from data | `export_packages_test.py test_ctc_loss` |
| `grouped_products()` | `F.grouped_mm`, `torch._grouped_mm` | tensors without values must be of bfloat16 | `export_packages_test.py test_grouped_products` |
| `without_input_checks()` | `CppWrapperCpu.generate_input_output_runtime_checks` of `_inductor` (private) | half of a wrapper is checks that only a variable of the environment turns on, and levin checks batches | – (it saves a third of the wrapper's compilation) |
| `without_regular_expressions()` | `_inductor.cpp_builder._get_torch_related_args` (private), `parse_device_str()` of `aoti_runtime/model_base.h` | a header that each wrapper compiles reads "cpu" with std::regex | – (it saves half of the wrapper's compilation) |
| `bounds_of_open_sizes()` | `_inductor.sizevars.SizeVarAllocator.evaluate_min`, `evaluate_max` (private) | the gradient of a part of an open dimension, as of `x[::2]`, cannot be compiled | `export_packages_test.py test_parts_of_open_dimensions` |
| `vector_sets()` | `_inductor.cpu_vec_isa.valid_vec_isa_list` (private) | it starts a Python that imports torch for each set of instructions, in each process that compiles | – (it saves a second for each) |
| `loaded()` | `_C._aoti.AOTIModelPackageLoader` (private; nothing is replaced) | `load_package()` loads all entries of a package where one is meant | – (it saves seconds) |
| `lists()` | `_subclasses.fake_tensor.FakeTensor.tolist` (private) | it asks for each element, and no mode for functions sees it | `export_steps_test.py test_numbers_that_are_no_data` |
| `seeds()` | `torch.manual_seed`, `torch.random.manual_seed` | a graph does not know that a step sets the seed | `export_steps_test.py test_seeds_and_generators` |
| `scheduler_arguments()` | `__init__` of `optim.lr_scheduler`'s classes | they do not store what they were made of | `export_files_test.py test_schedules` |
| `read_arguments()` | attributes of `optim.lr_scheduler`'s classes (private; nothing is replaced) | the same, of those that are made before the export | `export_files_test.py test_schedules_made_before_the_export` |
"""

import contextlib
import functools
import hashlib
import inspect
import operator
import os
import re
import sys

import torch
import torch.nn.functional as F
from torch.export.pt2_archive._package import AOTICompiledModel

from levin_train.errors import is_users

VERSIONS = ("2.13.0",)  # for which what an export compiles, and the patches, are tested; a package is for one of them


def check_version(found=torch.__version__):
    """Raises ImportError for a torch that is not tested."""
    if found.split("+")[0] not in VERSIONS:
        raise ImportError(f"levin_train.export() needs torch {' or '.join(VERSIONS)}, and this is torch {found}: "
                          f"pip install torch=={VERSIONS[-1]}")


@contextlib.contextmanager
def _replaced(owner, **replacements):
    original = {name: getattr(owner, name) for name in replacements}
    for name, replacement in replacements.items():
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for name, value in original.items():
            setattr(owner, name, value)


def attention(function):
    """`function`: it gets torch's as its first argument."""
    original = F.multi_head_attention_forward
    return _replaced(F, multi_head_attention_forward=lambda *args, **kwargs: function(original, *args, **kwargs))


class _Layers(int):
    """A number of layers for which torch's decomposition applies dropout between layers: it asks `num_layers < i - 1`,
    which never holds."""

    def __lt__(self, other):
        return True


def recurrent_layers(lstm_layer_for, layer):
    """`lstm_layer_for` chooses the function for a layer of an LSTM, and `layer` is that of the others."""
    from torch._decomp import decompositions
    helper = decompositions._rnn_helper

    def with_dropout(input, hidden, params, has_biases, num_layers, *rest):
        return helper(input, hidden, params, has_biases, _Layers(num_layers), *rest)

    return _replaced(decompositions, _rnn_helper=with_dropout, select_one_layer_lstm_function=lstm_layer_for, one_layer_rnn=layer)


def recurrent_modules(function):
    """`function`: what their forward() is, with torch's as its first argument."""
    stack = contextlib.ExitStack()
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        stack.enter_context(_replaced(kind, forward=functools.partialmethod(_given_first, function, kind.forward)))
    return stack


def _given_first(module, function, original, *args, **kwargs):
    return function(original, module, *args, **kwargs)


def weights(module, state):
    """The module computes with these tensors instead of its own."""
    from torch.nn.utils import stateless
    return stateless._reparametrize_module(module, state, tie_weights=True, stack_weights=True)


def checkpoint(reentrant, hooks):
    """`reentrant` runs a function of checkpoint(use_reentrant=True), and `hooks`, a generator, runs before and after one of the other."""
    from torch.utils import checkpoint as of_torch

    class Direct:
        apply = staticmethod(reentrant)

    return _replaced(of_torch, CheckpointFunction=Direct, _checkpoint_without_reentrant_generator=hooks)


def lists():
    """tolist() of a tensor without values is asked as that of any other."""
    from torch._subclasses.fake_tensor import FakeTensor
    return _replaced(FakeTensor, tolist=torch.Tensor.tolist)


def compiling():
    """What asks torch.compiler.is_compiling() or is_exporting() is told so."""
    return _replaced(torch.compiler, _is_compiling_flag=True, _is_exporting_flag=True)


def sizes_of_data_in_backward():
    """What torch itself asks about a size that comes from data is answered as for any that is not 0 or 1. What the user's code asks is not."""
    from torch.fx.experimental import symbolic_shapes
    original = symbolic_shapes.ShapeEnv.evaluate_sym_node

    def evaluate(self, node, *args, **kwargs):
        try:
            return original(self, node, *args, **kwargs)
        except symbolic_shapes.GuardOnDataDependentSymNode:
            asks, frame = node.expr, sys._getframe(1)
            while "/torch/fx/" in frame.f_code.co_filename:
                frame = frame.f_back
            answers = {bool(asks.xreplace(dict.fromkeys(asks.free_symbols, size))) for size in (2, 3, 7, 101, 10007)}
            if is_users(frame.f_code.co_filename) or len(answers) != 1:
                raise
            return answers.pop()

    return _replaced(symbolic_shapes.ShapeEnv, evaluate_sym_node=evaluate)


def sizes_of_data(answer, asks_for_number):
    """What is asked about a size that comes from data, and torch does not know, is answered by `answer(condition, frame)`, if that gives no None.
    `asks_for_number(frame)` sees where a size becomes a number of Python."""
    from torch.fx.experimental import symbolic_shapes
    original = symbolic_shapes.ShapeEnv.evaluate_sym_node

    def evaluate(self, node, *args, **kwargs):
        if node.pytype is int and node.expr.free_symbols:
            asks_for_number(sys._getframe(1))
        try:
            return original(self, node, *args, **kwargs)
        except symbolic_shapes.GuardOnDataDependentSymNode:
            found = answer(node.expr, sys._getframe(1))
            if found is None:
                raise
            self.guard_or_defer_runtime_assert(node.expr if found else ~node.expr, "as in the example")
            return found

    files = symbolic_shapes.uninteresting_files() | {__file__}  # torch keeps the line of the innermost other file with a question
    stack = contextlib.ExitStack()
    stack.enter_context(_replaced(symbolic_shapes, uninteresting_files=lambda: files))
    stack.enter_context(_replaced(symbolic_shapes.ShapeEnv, evaluate_sym_node=evaluate))
    return stack


class _Paths:
    """opt_einsum for torch.einsum(): the order of products is that for the sizes of the example."""

    def __init__(self, original):
        self._original = original

    def contract_path(self, equation, *operands, optimize):
        shapes = [tuple(size if isinstance(size, int) else size.node.hint for size in operand.shape) for operand in operands]
        return self._original.contract_path(equation, *shapes, shapes=True, optimize=optimize)


def contraction_paths():
    from torch.backends import opt_einsum
    original = opt_einsum.get_opt_einsum()
    return _replaced(opt_einsum, get_opt_einsum=lambda: _Paths(original))


def ctc_loss(function):
    return _replaced(F, ctc_loss=function)


def grouped_products(function):
    """`function`: what computes them."""
    stack = contextlib.ExitStack()
    stack.enter_context(_replaced(F, grouped_mm=function))
    stack.enter_context(_replaced(torch, _grouped_mm=function))
    return stack


def without_input_checks():
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
    return _replaced(CppWrapperCpu, generate_input_output_runtime_checks=lambda self: self.prefix.splice_aot(_NO_CHECKS))


_NO_CHECKS = """
static constexpr bool _check_aoti_runtime_check_inputs_env() { return false; }
static void __check_inputs_outputs(AtenTensorHandle*, AtenTensorHandle*) {}
"""


def without_regular_expressions():
    """Wrappers are compiled with a copy of one of torch's headers first among them; as they are where the header is another than is known."""
    from torch._inductor import cpp_builder
    folder = _light_headers()
    if folder is None:
        return contextlib.nullcontext()
    original = cpp_builder._get_torch_related_args

    def with_headers(*args, **kwargs):
        include_folders, *rest = original(*args, **kwargs)
        return [folder, *include_folders], *rest

    return _replaced(cpp_builder, _get_torch_related_args=with_headers)


_MODEL_HEADER = "torch/csrc/inductor/aoti_runtime/model_base.h"
_READS_DEVICE = re.compile(r'^  std::regex re\("\(cpu\|cuda.*?^}\n', re.MULTILINE | re.DOTALL)
_READS_CPU = """  AOTI_RUNTIME_CHECK(device_str.compare(0, 3, "cpu") == 0, "Invalid device: " + device_str);
  device_type = aoti_torch_device_type_cpu();
  device_idx = device_str.size() > 4 ? stoi(device_str.substr(4)) : -1;
}
"""


@functools.cache
def _light_headers():
    """A folder with the header, whose device is a processor without a regular expression. None where torch's is not as expected."""
    from levin_train import cache
    try:
        with open(os.path.join(os.path.dirname(torch.__file__), "include", _MODEL_HEADER), encoding="utf-8") as file:
            text, count = _READS_DEVICE.subn(lambda _: _READS_CPU, file.read())
    except OSError:
        return None
    if count != 1:
        return None
    folder = cache.path_of(f"levin_headers_{hashlib.sha256(text.encode()).hexdigest()[:16]}")
    place = os.path.join(folder, _MODEL_HEADER)
    if not os.path.exists(place):
        cache.write(place, text)
    return folder


def bounds_of_open_sizes():
    """The smaller and the larger of an open size and a number are expressions, as they are of sizes that come from data."""
    from torch._inductor.sizevars import SizeVarAllocator
    from torch.utils._sympy.functions import Max, Min
    original = SizeVarAllocator.evaluate_min

    def chosen(self, left, right, of_numbers, expression):
        if sys.maxsize in (left, right):  # the end of x[1:]
            return of_numbers(left, right, key=lambda each: each == sys.maxsize)
        try:
            smaller = original(self, left, right)
        except TypeError:
            return expression(left, right)
        return smaller if of_numbers is min else right if smaller == left else left

    return _replaced(SizeVarAllocator, evaluate_min=lambda *args: chosen(*args, min, Min), evaluate_max=lambda *args: chosen(*args, max, Max))


def vector_sets(function):
    """`function`: gives the sets of instructions that loops may use, of torch's function for that."""
    from torch._inductor import cpu_vec_isa
    return _replaced(cpu_vec_isa, valid_vec_isa_list=functools.partial(function, cpu_vec_isa.valid_vec_isa_list))


def loaded(package, entry):
    """An entry of a package on the disk, to be called. torch's load_package() loads all entries, and tries for each which sets of instructions
    this processor has."""
    return AOTICompiledModel(torch._C._aoti.AOTIModelPackageLoader(package, entry, False, 1, -1))


def open_sizes():
    from torch.fx.experimental import _config
    return _config.patch(backed_size_oblivious=True)


def seeds(function):
    """`function`: what torch.manual_seed() is."""
    stack = contextlib.ExitStack()
    for owner in (torch, torch.random):
        stack.enter_context(_replaced(owner, manual_seed=function))
    return stack


def scheduler_class(name):
    """A class of torch's schedules, or None."""
    return getattr(torch.optim.lr_scheduler, name, None) or getattr(torch.optim.swa_utils, name, None)


def scheduler_kind(scheduler, names):
    """torch's class, of these names, whose rates a schedule has: its own, or the one of which its own changes the constructor alone. Or None."""
    for depth, kind in enumerate(type(scheduler).__mro__):
        if scheduler_class(kind.__name__) is kind:
            changed = {name for each in type(scheduler).__mro__[:depth] for name in vars(each) if not name.startswith("__") and hasattr(kind, name)}
            return kind if kind.__name__ in names and not changed else None
    return None


def _groups_of(name):
    """What each group of a schedule's optimizer has: one value for all, or one for each."""
    return lambda scheduler: _one([group[name] for group in scheduler.optimizer.param_groups])


def _one(values):
    return values[0] if all(value == values[0] for value in values) else list(values)


def _rounded(value):
    """As it was given, where it is computed back."""
    return float(f"{value:.12g}")


_CYCLED = {"base_momentum": lambda it: _groups_of("base_momentum")(it) if it.cycle_momentum else None,
           "max_momentum": lambda it: _groups_of("max_momentum")(it) if it.cycle_momentum else None}
# Options of constructors that are not attributes of their names.
_KEPT_AS = {
    "MultiStepLR": {"milestones": lambda it: sorted(it.milestones.elements())},
    "LambdaLR": {"lr_lambda": lambda it: it.lr_lambdas},
    "MultiplicativeLR": {"lr_lambda": lambda it: it.lr_lambdas},
    "ReduceLROnPlateau": {"min_lr": lambda it: _one(it.min_lrs)},
    "SequentialLR": {"schedulers": lambda it: it._schedulers, "milestones": lambda it: it._milestones},
    "ChainedScheduler": {"schedulers": lambda it: it._schedulers},
    "CyclicLR": {"base_lr": lambda it: _one(it.base_lrs), "max_lr": lambda it: _one(it.max_lrs), "scale_fn": lambda it: it._scale_fn_custom,
                 "scale_mode": lambda it: None, "step_size_up": lambda it: round(it.total_size * it.step_ratio),
                 "step_size_down": lambda it: round(it.total_size * (1 - it.step_ratio)), **_CYCLED},
    "OneCycleLR": {"max_lr": _groups_of("max_lr"), "epochs": lambda it: None, "steps_per_epoch": lambda it: None,
                   "pct_start": lambda it: _rounded((it._schedule_phases[0]["end_step"] + 1) / it.total_steps),
                   "anneal_strategy": lambda it: it._anneal_func_type, "three_phase": lambda it: len(it._schedule_phases) == 3,
                   "div_factor": lambda it: _rounded(it.optimizer.param_groups[0]["max_lr"] / it.optimizer.param_groups[0]["initial_lr"]),
                   "final_div_factor": lambda it: _rounded(it.optimizer.param_groups[0]["initial_lr"] / it.optimizer.param_groups[0]["min_lr"]), **_CYCLED},
    "SWALR": {"swa_lr": _groups_of("swa_lr"), "anneal_strategy": lambda it: it._anneal_strategy},
}


def read_arguments(scheduler, kind):
    """What a schedule of torch's class `kind` was made of, where it is not the default, as its attributes say it."""
    found = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        if name not in ("optimizer", "last_epoch"):
            value = _KEPT_AS.get(kind.__name__, {}).get(name, operator.attrgetter(name))(scheduler)
            if value is not None and value != parameter.default:
                found[name] = value
    return found


def scheduler_state(scheduler):
    """The attributes of a schedule, as texts that may be compared."""
    return {name: _text(value) for name, value in vars(scheduler).items() if name not in ("optimizer", "_schedulers") and not name.startswith("_levin")}


def _text(value):
    if isinstance(value, dict):
        return {key: _text(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_text(part) for part in value]
    if isinstance(value, functools.partial):
        return [_text(value.func), _text(value.args)]
    return repr(value) if isinstance(value, (bool, int, float, str, type(None), torch.Tensor)) else id(value)


def _keep_state(scheduler):
    """Of those in it too, which it may have changed."""
    scheduler._levin_state = scheduler_state(scheduler)
    for inner in getattr(scheduler, "_schedulers", ()):
        _keep_state(inner)


@contextlib.contextmanager
def scheduler_arguments(names):
    """Schedulers of these classes have what they were made of as `_levin_arguments`, and as `_levin_state` what they were then."""
    with contextlib.ExitStack() as stack:
        for name in names:
            scheduler = scheduler_class(name)

            def initialize(self, *args, _init=scheduler.__init__, **kwargs):
                bound = inspect.signature(_init).bind(self, *args, **kwargs)
                _init(self, *args, **kwargs)
                self._levin_arguments = dict(list(bound.arguments.items())[1:])
                _keep_state(self)

            initialize.__signature__ = inspect.signature(scheduler.__init__)
            stack.enter_context(_replaced(scheduler, __init__=initialize))
        yield
