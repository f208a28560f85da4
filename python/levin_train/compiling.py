"""From a step to a compiled library: its graph, recorded on tensors without values, and Inductor."""

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

from levin_train import attention, recurrent, torch_patches
from levin_train.elf import forget_folders, replace_needed, strip
from levin_train.errors import ExportError, is_users, raising_line, refuse
from levin_train.recording import NUMBERS
from levin_train.steps import random_state


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
        self.special_sizes = set()  # (name of a dimension, size): to be compared too


_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def traced_sizes(step):
    """Sizes at which a step is recorded: primes that no tensor has, so that no dimension is tied to another by accident. Those other
    than the batch's are not above the example's, as there may be a longest one."""
    taken = {size for tensor in [*step.weights.parameters.values(), *step.weights.buffers.values()] for size in tensor.shape}
    taken |= {size for names in step.layout.dimensions for size in names if isinstance(size, int)}
    chosen = {}
    for name, example in sorted(step.layout.sizes().items(), key=lambda pair: pair[0] == "batch"):
        free = [prime for prime in _PRIMES if prime not in taken and (prime > 11 if name == "batch" else prime <= example)]
        chosen[name] = (free[0] if name == "batch" else free[-1]) if free else example
        taken.add(chosen[name])
    return chosen


def _fake(mode, tensor, dynamic=()):
    sizes = [DimDynamic.DYNAMIC if axis in dynamic else DimDynamic.STATIC for axis in range(tensor.dim())]
    return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))


def record(step, tensors):
    """The graph of a step. `tensors`: a batch, at the sizes at which it is recorded."""
    try:
        eager = step.probe(tensors)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(f"{raising_line(error)}: {step.name} fails in Python on a batch like the example with the sizes "
                          f"{step.layout.sizes(tensors)}: {type(error).__name__}: {error}. A package gives a step its batch "
                          "and the numbers of the run, and no trainer or logger.") from error
    parameters, buffers = list(step.weights.parameters), list(step.weights.buffers)
    shapes = ShapeEnv()
    mode = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
    example = [_fake(mode, step.weights.parameters[name].detach().contiguous()).requires_grad_(step.weights.parameters[name].requires_grad)
               for name in parameters]
    example += [_fake(mode, step.weights.buffers[name].contiguous()) for name in buffers]
    example += [_fake(mode, tensor, [axis for axis, name in enumerate(dimensions) if isinstance(name, str)])
                for tensor, dimensions in zip(tensors, step.layout.dimensions)]
    example += [_fake(mode, torch.tensor(0)) for _ in NUMBERS]
    described = []

    def function(*flat):
        values = iter(flat)
        weights = {name: next(values) for name in parameters}
        state = {name: next(values) for name in buffers}
        batch = [next(values) for _ in tensors]
        recorder = step.recorder(eager.decisions, {name: next(values) for name in NUMBERS})
        outputs, found = step.run(recorder, weights, state, batch)
        described[:] = found
        return tuple(outputs)

    with random_state(1), torch_patches.recurrent_layers(recurrent.lstm_layer_for), torch_patches.attention(attention.attention), \
            torch_patches.open_sizes(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = make_fx(function, tracing_mode="symbolic")(*example)
        except ExportError:
            raise
        except Exception as error:
            raise _explained(step, error) from error
    inputs = [{"kind": "parameter", "name": name} for name in parameters] + [{"kind": "buffer", "name": name} for name in buffers]
    inputs += [{"kind": "batch", "name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": dimensions}
               for name, tensor, dimensions in zip(step.layout.names, tensors, step.layout.dimensions)]
    inputs += [{"kind": "number", "name": name} for name in NUMBERS]
    module.graph.eliminate_dead_code()
    _write_alpha_out(module)
    _stack_parts(module)
    _refuse_conditions_on_numbers(module, inputs, described)
    graph = Graph(step, module, inputs, example, described, shapes, _constants(step, module))
    sizes = step.layout.sizes()
    graph.scale = math.prod(sizes.values()) / math.prod(step.layout.sizes(tensors).values())
    _refuse_unseen_writes(graph)
    _drop_unread_inputs(graph)
    check_sizes(graph)
    return graph


def _explained(step, error):
    where = raising_line(error)
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    kind = type(error).__name__
    advice = "Change this line so that it computes with tensors alone, or move it out of the step"
    if "DataDependent" in kind or "data-dependent" in str(error) or "Unbacked" in str(error):
        advice = "A size or a path depends on values: use masks of a fixed length, or torch.where, instead"
    return ExportError(f"{where + ': ' if where else ''}{step.name} cannot be recorded: {first} ({kind}). {advice}.")


_aten = torch.ops.aten
_WITH_ALPHA = (_aten.add.Tensor, _aten.add_.Tensor, _aten.sub.Tensor, _aten.sub_.Tensor)


def _write_alpha_out(module):
    """a + alpha * b instead of add(a, b, alpha): Inductor makes addmm(a, …) of add(a, mm(…), alpha), and loses alpha."""
    for node in list(module.graph.nodes):
        if node.target in _WITH_ALPHA and "alpha" in node.kwargs:
            other, alpha = node.args[1], node.kwargs["alpha"]
            with module.graph.inserting_before(node):
                scaled = module.graph.call_function(_aten.mul.Scalar, (other, alpha)) if isinstance(other, torch.fx.Node) else other * alpha
            node.args, node.kwargs = (node.args[0], scaled), {}
    module.recompile()


def _stack_parts(module):
    """stack(parts) instead of the sum of tensors that are zero but for a part each, as the gradients of x[0], x[1] and x[2] give of
    x: Inductor makes of the sum a loop that decides on each element."""
    def leaves_of(node):
        if node.target is not _aten.add.Tensor or node.kwargs:
            return [node]
        return [leaf for part in node.args for leaf in (leaves_of(part) if isinstance(part, torch.fx.Node) else [None])]

    def whole(leaves):
        if any(leaf is None or leaf.target is not _aten.select_backward.default for leaf in leaves):
            return False
        _, sizes, dim, _ = leaves[0].args
        return all(leaf.args[1:3] == (sizes, dim) for leaf in leaves) and \
            sorted(leaf.args[3] for leaf in leaves) == list(range(sizes[dim] if isinstance(sizes[dim], int) else 0))

    for node in reversed(list(module.graph.nodes)):
        leaves = leaves_of(node)
        if len(leaves) > 1 and whole(leaves):
            parts = [leaf.args[0] for leaf in sorted(leaves, key=lambda leaf: leaf.args[3])]
            with module.graph.inserting_before(node):
                stacked = module.graph.call_function(_aten.stack.default, (parts, leaves[0].args[2]))
            stacked.meta = dict(node.meta)
            node.replace_all_uses_with(stacked)
    module.graph.eliminate_dead_code()
    module.recompile()


def _constants(step, module):
    """Tensors that the step reads and that are not weights: what is to be said of them. Refuses those that training would change."""
    notes = []
    for name in sorted({node.target for node in module.graph.nodes if node.op == "get_attr"}):
        tensor = getattr(module, name)
        if not isinstance(tensor, torch.Tensor) or not tensor.numel():
            continue
        attribute = step.attribute_of(tensor)
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


def _refuse_unseen_writes(graph):
    """Refuses writes to weights that the eager run did not show, as those to .data that have left the values as they were."""
    placeholders = dict(zip((node for node in graph.module.graph.nodes if node.op == "placeholder"), graph.inputs))
    for node in graph.module.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        written = [node.args[index] for index, argument in enumerate(schema.arguments) if argument.is_write and index < len(node.args)]
        for root in pytree.tree_leaves(written):
            if not isinstance(root, torch.fx.Node):
                continue
            while root.op == "call_function" and (root.target is _aten.clone.default and root.args[0] in placeholders or _is_view(root)):
                root = root.args[0]
            entry = placeholders.get(root)
            if root.op == "get_attr" or entry and entry["name"] not in graph.step.changes():
                what = entry["name"] if entry else "a tensor that is not a buffer"
                refuse(f"{graph.step.name} writes to {what}, which did not show on the example batch",
                       "Write to a buffer, without .data, or compute a new tensor", graph.step.where)


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


def _refuse_conditions_on_numbers(module, inputs, described):
    nodes = list(module.graph.nodes)
    numbers = {node: entry["name"] for node, entry in zip((n for n in nodes if n.op == "placeholder"), inputs)
               if entry["kind"] == "number"}
    reached = {}
    for node in nodes:
        sources = [reached.get(source) or numbers.get(source) for source in node.all_input_nodes]
        reached[node] = next((source for source in sources if source), None)
    outputs = nodes[-1].args[0]
    for entry, output in zip(described, outputs):
        name = (reached.get(output) or numbers.get(output)) if entry["kind"] == "condition" else None
        if name:
            refuse(f"what the step does depends on {name}, which changes in a run",
                   "Compute both ways and take one with torch.where, or clamp with torch.clamp", entry["where"])


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
                where = next((_line_of_guard(guard) for guard in graph.shapes.guards if symbol in guard.expr.free_symbols), "")
                refuse(f'{graph.step.name} fixes the dimension "{name}" of "{entry["name"]}" to {value}',
                       "Do not make a Python number of a size: x.shape[0] in torch's functions stays open, int(), range() and "
                       "lists of that length do not", where)
            symbols.setdefault(name, set()).update({symbol, *value.free_symbols})
    hints = {symbol: int(hint) for symbol, hint in graph.shapes.backed_var_to_val.items()}
    for guard in graph.shapes.guards:
        named = {int(number) for number in guard.expr.atoms(sympy.Integer) if 1 < number < _LARGE}
        for name, alike in symbols.items():
            if not guard.expr.free_symbols & alike:
                continue
            others = {size for size in {*range(2, 65), *named, 100, 256, 1024, 4096, _LARGE}
                      if guard.expr.xreplace({**hints, **dict.fromkeys(alike, size)}) == False}  # noqa: E712 - sympy's false
            few, where = _LARGE not in others and len(others) <= 12, _line_of_guard(guard)
            if where and not few:
                refuse(f'{graph.step.name} goes another way when "{name}" is {max(others)} than when it is {hints[next(iter(alike))]}',
                       "Do not decide on the size of a dimension that varies, or export it with a fixed one", where)
            moderate = sorted(size for size in others if size <= 1024)
            graph.special_sizes |= {(name, size) for size in (moderate if few else moderate[:1] + moderate[-1:])}


def _line_of_guard(guard):
    frame = guard.sloc.maybe_user_loc or guard.sloc.framework_loc
    known = frame is not None and not isinstance(frame, str) and is_users(frame.filename)
    return f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" if known else ""


# Of processors that a package may be compiled for instead of this one: Inductor's width of vectors, and what they have.
PROCESSORS = {
    "x86-64-v2": (1, ("popcnt", "sse4_1", "sse4_2", "ssse3")),
    "x86-64-v3": (256, ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "popcnt", "sse4_1", "sse4_2", "ssse3")),
}


def _inductor(graph, options):
    example = tuple(graph.example)
    try:
        return torch._inductor.aot_compile(graph.module, example, options=options)
    except Exception:  # of one of Inductor's patterns for a part of a graph: without them it knows less, and takes more
        try:
            return torch._inductor.aot_compile(graph.module, example, options={**options, "pattern_matcher": False})
        except Exception as error:
            raise _explained(graph.step, error) from error


def threads_of(graph):
    """Loops of a graph whose tensors are large run on the run's threads, those of a small one on a single thread: there it takes
    less time, and what fails in a loop is an error and not the end of the process."""
    largest = 0
    for node in graph.module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            count = value.numel()
            known = int(count) if isinstance(count, int) else int(count.node.hint) * graph.scale
            largest = max(largest, known)
    return "run" if largest >= 65536 else 1


def compiled(graph, processor="native", threads=None):
    """Compiles a graph. Gives the files for the package."""
    threads = threads or threads_of(graph)
    # Without either, arrays of the exporting machine's number of threads are written to by more.
    threading = {"cpp.dynamic_threads": True} if threads == "run" else {"cpp.threads": threads}
    options = {"aot_inductor.package": True, "aot_inductor.custom_ops_to_c_shims": recurrent.SHIMS, "fallback_random": True, "aot_inductor.compile_wrapper_opt_level": "O1", **threading}
    if processor != "native":
        options.update({"cpp.march": processor, "cpp.simdlen": PROCESSORS[processor][0]})
    with warnings.catch_warnings(), torch_patches.open_sizes():
        warnings.simplefilter("ignore")
        files = _inductor(graph, options)
    check_sizes(graph)
    kept = [file for file in files if isinstance(file, str) and file.endswith((".so", ".json"))]
    for file in kept:
        if file.endswith(".so"):  # a LibTorch for CPUs alone has no libtorch.so
            replace_needed(file, "libtorch.so", "libtorch_cpu.so")
            strip(file)
            forget_folders(file, (os.path.dirname(torch.__file__), cache_dir()))
    return kept
