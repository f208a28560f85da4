"""What an export changes in torch while it lasts: every patch, and the one version of torch for which they are tested.

| patch | symbol of torch | why | it can go when this passes without it (tests/exported) |
| --- | --- | --- | --- |
| `attention()` | `F.multi_head_attention_forward` | it makes one dimension of the batch and the heads, which Inductor cannot divide where the batch is open | `export_packages_test.py test_attention_of_all_kinds` |
| `recurrent_layers()` | `_decomp.decompositions._rnn_helper` | it leaves out dropout between layers | `export_packages_test.py test_lstm_over_a_length_that_varies` |
| `recurrent_layers()` | `_decomp.decompositions.select_one_layer_lstm_function` | its layer is one for inference, without a backward pass | the same |
| `weights()` | `nn.utils.stateless._reparametrize_module` (private) | `functional_call()` calls `forward()` alone, and a step is another method | `export_test.py` |
| `open_sizes()` | `fx.experimental._config.backed_size_oblivious` (private) | a size of 0 or 1 in the example would fix a dimension | `export_test.py test_conditions` |
| `scheduler_arguments()` | `__init__` of `optim.lr_scheduler`'s classes | they do not store what they were made of | `export_files_test.py test_schedules` |
"""

import contextlib
import inspect

import torch
import torch.nn.functional as F

VERSION = "2.13.0"


def check_version(found=torch.__version__):
    """Raises ImportError for another torch: what an export compiles, and the patches, are tested with one version."""
    if found.split("+")[0] != VERSION:
        raise ImportError(f"levin_train.export() needs torch {VERSION}, and this is torch {found}: pip install torch=={VERSION}")


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


def recurrent_layers(lstm_layer_for):
    """`lstm_layer_for`: chooses the function for a layer of an LSTM."""
    from torch._decomp import decompositions
    helper = decompositions._rnn_helper

    def with_dropout(input, hidden, params, has_biases, num_layers, *rest):
        return helper(input, hidden, params, has_biases, _Layers(num_layers), *rest)

    return _replaced(decompositions, _rnn_helper=with_dropout, select_one_layer_lstm_function=lstm_layer_for)


def weights(module, state):
    """The module computes with these tensors instead of its own."""
    from torch.nn.utils import stateless
    return stateless._reparametrize_module(module, state, tie_weights=True)


def open_sizes():
    from torch.fx.experimental import _config
    return _config.patch(backed_size_oblivious=True)


@contextlib.contextmanager
def scheduler_arguments(names):
    """Schedulers of these classes have what they were made of as `_levin_arguments`."""
    with contextlib.ExitStack() as stack:
        for name in names:
            scheduler = getattr(torch.optim.lr_scheduler, name)

            def initialize(self, *args, _init=scheduler.__init__, **kwargs):
                bound = inspect.signature(_init).bind(self, *args, **kwargs)
                _init(self, *args, **kwargs)
                self._levin_arguments = dict(list(bound.arguments.items())[1:])

            initialize.__signature__ = inspect.signature(scheduler.__init__)
            stack.enter_context(_replaced(scheduler, __init__=initialize))
        yield
