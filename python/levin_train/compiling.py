"""From a step to a compiled library: its graph, recorded on tensors without values, and Inductor."""

import contextlib
import math
import os
import warnings

import sympy
import torch
import torch._inductor
import torch._inductor.config
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree

from levin_train import attention, courses, ctc, grouped, gru, processors, recurrent, torch_patches
from levin_train.conditions import add_conditions, is_check, line_of_guard
from levin_train.elf import forget_folders, replace_needed, strip
from levin_train.errors import ExportError, raising_line, refuse
from levin_train.rewriting import rewrite
from levin_train.stand_ins import NUMBERS
from levin_train.steps import random_state
from levin_train.watching import line_of_change


class Graph:
    """A step's graph, with what its inputs and outputs are."""

    def __init__(self, step, module, inputs, example, outputs, shapes, notes):
        self.step = step
        self.module = module
        self.inputs = inputs  # [{"kind": …, "name": …}]
        self.example = example
        self.outputs = outputs
        self.shapes = shapes
        self.notes = notes
        self.scale = 1.0  # of the example's batch to the one at which it was recorded
        self.conditions_on_sizes = 0  # outputs at the end, which the step itself does not have
        self.special_sizes = set()  # (name of a dimension, size): to be compared too
        self.line_that_fixes = str  # gives the user's line that fixes a size, an empty text where it is not known


_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def traced_sizes(step):
    """Sizes at which a step is recorded where levin makes the batch: primes that no tensor has, so that no dimension is tied to another by
    accident. Those other than the batch's are not above the example's, as there may be a longest one."""
    taken, chosen = _sizes_of_tensors(step), {}
    for name, example in sorted(step.layout.sizes().items(), key=lambda pair: pair[0] == "batch"):
        free = [prime for prime in _PRIMES if prime not in taken and (prime > 11 if name == "batch" else prime <= example)]
        chosen[name] = (free[0] if name == "batch" else free[-1]) if free else example
        taken.add(chosen[name])
    return chosen


def _recorded_batch(step):
    """The batch at which a step is recorded. Of several examples it is the one in which the fewest sizes are alike by accident."""
    if not step.layout.is_compared:
        return step.layout.resized(traced_sizes(step))
    fixed = _sizes_of_tensors(step)

    def accidents(tensors):
        sizes = list(step.layout.sizes(tensors).values())
        return len(sizes) - len(set(sizes)), sum(size < 2 for size in sizes), sum(size in fixed for size in sizes)

    return min(step.layout.examples, key=accidents)


def _sizes_of_tensors(step):
    """Sizes of dimensions that do not vary."""
    taken = {size for tensor in [*step.weights.parameters.values(), *step.weights.buffers.values()] for size in tensor.shape}
    return taken | {size for names in step.layout.dimensions for size in names if isinstance(size, int)}


def _separate_sizes(step, tensors):
    """Tensors of these shapes in which no two dimensions that vary have the same size by accident, and none has 0 or 1. Graphs are
    recorded without values, so that they need not be a batch that a loader gives."""
    taken, chosen = _sizes_of_tensors(step), {}
    sizes = step.layout.sizes(tensors)
    for name, size in sizes.items():
        alike = size < 2 or size in chosen.values()
        chosen[name] = next(prime for prime in _PRIMES if prime > size and prime not in {*taken, *sizes.values(), *chosen.values()}) if alike else size
    if chosen == sizes:
        return tensors
    return [tensor.new_zeros([chosen.get(name, name) for name in names]) for tensor, names in zip(tensors, step.layout.dimensions)]


def _fake(mode, tensor, dynamic=()):
    sizes = [DimDynamic.DYNAMIC if axis in dynamic else DimDynamic.STATIC for axis in range(tensor.dim())]
    return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))


class _Traced:
    """A step on tensors without values, in all of its courses. `described`: what it gives, after run()."""

    def __init__(self, step, found, tensors):
        self._step, self._found, self._count = step, found, len(tensors)
        self.described = []
        self.shapes = ShapeEnv()
        mode = FakeTensorMode(shape_env=self.shapes, allow_non_fake_inputs=True)
        mode.cache_enabled = not step.picked_rows  # it asks for the strides of what it remembers, which sizes that come from data do not say
        self.example = [_fake(mode, parameter.detach().contiguous()).requires_grad_(parameter.requires_grad)
                        for parameter in step.weights.parameters.values()]
        self.example += [_fake(mode, buffer.contiguous()) for buffer in step.weights.buffers.values()]
        self.example += [_fake(mode, tensor, [axis for axis, name in enumerate(dimensions) if isinstance(name, str)])
                         for tensor, dimensions in zip(tensors, step.layout.dimensions)]
        self.example += [_fake(mode, torch.tensor(0)) for _ in NUMBERS]

    def _outputs(self, *flat):
        values, step = iter(flat), self._step
        weights = {name: next(values) for name in step.weights.parameters}
        state = {name: next(values) for name in step.weights.buffers}
        batch = [next(values) for _ in range(self._count)]
        numbers, runs, drawn = {name: next(values) for name in NUMBERS}, [], []
        for course in self._found:
            recorder = step.recorder(course.recorder, numbers)
            with courses.Draws(drawn) if len(self._found) > 1 else contextlib.nullcontext():
                runs.append((*step.run(recorder, weights, state, batch), recorder))
        outputs, self.described = runs[0][:2] if len(runs) == 1 else courses.merged(step, runs)
        return tuple(outputs)

    def run(self):
        """The module of its graph."""
        with random_state(1), torch_patches.recurrent_layers(recurrent.lstm_layer_for, gru.layer), torch_patches.attention(attention.attention), \
                grouped.recorded(), ctc.recorded(), torch_patches.contraction_paths(), torch_patches.open_sizes(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return make_fx(self._outputs, tracing_mode="symbolic")(*self.example)
            except ExportError:
                raise
            except Exception as error:
                raise _explained(self._step, error) from error

    def line_that_fixes(self):
        """The user's line that makes a fixed number of a size."""
        return line_of_change(self.run, lambda: [symbol for symbol, value in self.shapes.replacements.items() if not value.free_symbols])


def record(step):
    """The graph of a step."""
    return step.retried(lambda: _recorded(step))


def _recorded(step):
    tensors = _recorded_batch(step)
    found = step.probe(tensors)
    if step.layout.is_compared:
        tensors = _separate_sizes(step, tensors)
    traced = _Traced(step, found, tensors)
    module, described = traced.run(), traced.described
    inputs = [{"kind": "parameter", "name": name} for name in step.weights.parameters]
    inputs += [{"kind": "buffer", "name": name} for name in step.weights.buffers]
    inputs += [{"kind": "batch", "name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": dimensions}
               for name, tensor, dimensions in zip(step.layout.names, tensors, step.layout.dimensions)]
    inputs += [{"kind": "number", "name": name} for name in NUMBERS]
    if len(found) > 1:
        courses.share(module)
    rewrite(step, module)
    graph = Graph(step, module, inputs, traced.example, described, traced.shapes, _constants(step, module))
    graph.line_that_fixes = lambda: _Traced(step, found, tensors).line_that_fixes()
    sizes = step.layout.sizes()
    graph.scale = math.prod(sizes.values()) / math.prod(step.layout.sizes(tensors).values())
    unseen = _unseen_writes(graph)
    if unseen:
        step.also_written = unseen
        return _recorded(step)
    add_conditions(graph)
    _drop_unread_inputs(graph)
    check_sizes(graph)
    return graph


def _explained(step, error):
    where = raising_line(error) or step.picked_rows
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    kind = type(error).__name__
    advice = "Change this line so that it computes with tensors alone, or move it out of the step"
    if "DataDependent" in kind or "data-dependent" in str(error) or "Unbacked" in str(error):
        if step.picked_rows and step.picked_rows != where:
            first = f"what follows of rows that are taken by their values at {step.picked_rows}, as many as the data say, depends on their number"
        advice = "A size or a path depends on values: use masks of a fixed length, or torch.where, instead"
    return ExportError(f"{where + ': ' if where else ''}{step.name} cannot be recorded: {first} ({kind}). {advice}.")


def _constants(step, module):
    """Tensors that the step reads and that are not weights: what is to be said of them. Refuses those that training would change."""
    notes = []
    for name in sorted({node.target for node in module.graph.nodes if node.op == "get_attr"}):
        tensor = getattr(module, name)
        if not isinstance(tensor, torch.Tensor) or not tensor.numel():
            continue
        attribute = step.attribute_of(tensor)
        if step.leaves_behind(tensor):
            refuse(f"{step.name} reads {attribute}, which the step before has left there", "Make it a buffer (register_buffer)", step.where)
        shared = next((weight for weight, other in [*step.weights.parameters.items(), *step.weights.buffers.items()]
                       if other.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()), None)
        if shared:
            refuse(f"{step.name} reads {attribute or 'a tensor'}, which lies in the memory of {shared} and would not follow it",
                   f"Make it of {shared} in the step", step.where)
        if tensor.requires_grad:
            refuse(f"{step.name} reads {attribute or 'a tensor'}, which requires a gradient and is not a parameter of the module",
                   "Register it: self.name = nn.Parameter(...), nn.ParameterList", step.where)
        if attribute:
            notes.append(f"{attribute} is not a buffer: its values are fixed in the package")
    return notes


_aten = torch.ops.aten


def _unseen_writes(graph):
    """Names of buffers and of frozen parameters that the step writes to, though the run in Python did not show it, as a write to .data that
    leaves the values as they were. Refuses other such writes."""
    unseen, weights = [], graph.step.weights
    placeholders = dict(zip((node for node in graph.module.graph.nodes if node.op == "placeholder"), graph.inputs))
    for node in graph.module.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        written = [node.args[index] for index, argument in enumerate(schema.arguments) if argument.is_write and index < len(node.args)]
        for root in pytree.tree_leaves(written):
            if not isinstance(root, torch.fx.Node):
                continue
            while root.op == "call_function" and (_is_view(root) or root.target is _aten.clone.default and _copies_first(graph.step, placeholders.get(root.args[0]))):
                root = root.args[0]
            entry = placeholders.get(root)
            frozen = entry and (entry["kind"] == "buffer" or entry["kind"] == "parameter" and not weights.parameters[entry["name"]].requires_grad)
            if frozen and entry["name"] not in graph.step.changes():
                unseen.append(entry["name"])
            elif root.op == "get_attr" or entry and entry["name"] not in graph.step.changes():
                what = entry["name"] if entry else "a tensor that is not a buffer"
                refuse(f"{graph.step.name} writes to {what}, which did not show on the example batch",
                       "Write to a buffer, without .data, or compute a new tensor", graph.step.where)
    return unseen


def _copies_first(step, entry):
    """Whether a step copies an input before it begins, so that what it writes to the copy is meant for the input."""
    return entry is not None and (entry["kind"] == "buffer" or entry["name"] in step.changes())


def _is_view(node):
    schema = getattr(node.target, "_schema", None)
    alias = schema.arguments[0].alias_info if schema and schema.arguments else None
    return alias is not None and isinstance(node.args[0], torch.fx.Node)


def _drop_unread_inputs(graph):
    """Leaves out inputs that the graph does not read. Of a batch only those at its end, so that positions in it stay."""
    placeholders = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
    last = max((index for index, node in enumerate(placeholders) if node.users and graph.inputs[index]["kind"] == "batch"), default=-1)
    kept = []
    for index, node in enumerate(placeholders):
        if node.users or graph.inputs[index]["kind"] == "batch" and index < last:
            kept.append(index)
        else:
            graph.module.graph.erase_node(node)
    graph.inputs = [graph.inputs[index] for index in kept]
    graph.example = [graph.example[index] for index in kept]
    graph.module.recompile()


_LARGE = 10007


def check_sizes(graph):
    """Raises ExportError when a dimension that varies has been tied to a number, or when the graph is one for some sizes alone. What
    torch itself asks about sizes, as whether one is that of another dimension, makes some of them the graph's `special_sizes`."""
    symbols = {}
    for tensor, entry in zip(graph.example, graph.inputs):
        for axis, name in enumerate(entry.get("shape", [])):
            if not isinstance(name, str):
                continue
            symbol = getattr(getattr(tensor.shape[axis], "node", None), "_expr", None)
            value = graph.shapes.replace(symbol) if symbol is not None else tensor.shape[axis]
            if not getattr(value, "free_symbols", None):
                where = next((line_of_guard(guard) for guard in graph.shapes.guards if symbol in guard.expr.free_symbols), "")
                refuse(f'{graph.step.name} fixes the dimension "{name}" of "{entry["name"]}"',
                       "A loop over it, range(), a list of that length, and some functions of torch need its number: compute with the whole "
                       "tensor", where or graph.line_that_fixes() or graph.step.where)
            symbols.setdefault(name, set()).update({symbol, *value.free_symbols})
    hints = {symbol: int(hint) for symbol, hint in graph.shapes.backed_var_to_val.items()}
    for guard in [] if graph.step.layout.is_compared else graph.shapes.guards:
        named = {int(number) for number in guard.expr.atoms(sympy.Integer) if 1 < number < _LARGE}
        for name, alike in symbols.items():
            if not guard.expr.free_symbols & alike or is_check(guard):
                continue
            others = {size for size in {*range(2, 65), *named, 100, 256, 1024, 4096, _LARGE}
                      if guard.expr.xreplace({**hints, **dict.fromkeys(alike, size)}) == False}  # noqa: E712 - sympy's false
            few, where = _LARGE not in others and len(others) <= 12, line_of_guard(guard)
            if where and not few:
                refuse(f'{graph.step.name} goes another way when "{name}" is {max(others)} than when it is {hints[next(iter(alike))]}',
                       "Do not decide on the size of a dimension that varies. Or give export() several batches of your loader that go one way, which "
                       "is a condition of the package then: batches=[…]", where)
            moderate = sorted(size for size in others if size <= 1024)
            graph.special_sizes |= {(name, size) for size in (moderate if few else moderate[:1] + moderate[-1:])}


def _inductor(graph, options):
    example = tuple(graph.example)
    try:
        return torch._inductor.aot_compile(graph.module, example, options=options)
    except Exception:  # of one of Inductor's patterns for a part of a graph: without them it knows less, and takes more
        try:
            return torch._inductor.aot_compile(graph.module, example, options={**options, "pattern_matcher": False})
        except Exception as error:
            raise _explained(graph.step, error) from error


def shims_of(module):
    """What is compiled into a package for those of levin's operators that a graph has. It reads large headers of torch."""
    called = {node.target for node in module.graph.nodes}
    return {operator: sources for operator, sources in {**recurrent.SHIMS, **gru.SHIMS, **grouped.SHIMS, **ctc.SHIMS}.items() if operator in called}


def threads_of(graph):
    """Loops of a graph whose tensors are large run on the run's threads, those of a small one on a single thread: there it takes
    less time, and what fails in a loop is an error and not the end of the process."""
    largest = 0
    for node in graph.module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            count = value.numel()
            hint = count if isinstance(count, int) else count.node.hint  # None where the size comes from data
            known = int(hint or 0) * (1 if isinstance(count, int) else graph.scale)
            largest = max(largest, known)
    return "run" if largest >= 65536 else 1


def compiled(graph, processor="native", threads=None):
    """Compiles a graph. Gives the files for the package."""
    threads = threads or threads_of(graph)
    # Without either, arrays of the exporting machine's number of threads are written to by more.
    threading = {"cpp.dynamic_threads": True} if threads == "run" else {"cpp.threads": threads}
    options = {"aot_inductor.package": True,
               "aot_inductor.custom_ops_to_c_shims": shims_of(graph.module), "fallback_random": True,
               "aot_inductor.compile_wrapper_opt_level": "O1", "aot_inductor.enable_line_tables": False, **threading}
    if processor != "native":
        options.update({"cpp.march": processor, "cpp.simdlen": processors.PROCESSORS[processor][0]})
    with warnings.catch_warnings(), torch_patches.open_sizes(), torch_patches.bounds_of_open_sizes(), torch_patches.without_input_checks(), \
            torch_patches.without_regular_expressions(), torch_patches.vector_sets(processors.vector_sets):
        warnings.simplefilter("ignore")
        files = _inductor(graph, options)
    check_sizes(graph)
    return movable(files)


def movable(files):
    """Those of Inductor's files that a package holds, with nothing of this machine in them."""
    kept = [file for file in files if isinstance(file, str) and file.endswith((".so", ".json"))]
    for file in kept:
        if file.endswith(".so"):  # a LibTorch for CPUs alone has no libtorch.so
            replace_needed(file, "libtorch.so", "libtorch_cpu.so")
            strip(file)
            forget_folders(file, (os.path.dirname(torch.__file__), cache_dir()))
    return kept
