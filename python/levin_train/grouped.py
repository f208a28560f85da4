"""Products of groups of rows with a matrix each, as in a mixture of experts: one call that goes through the groups.

torch's grouped_mm() cannot be recorded for float32, and transformers then calls an operator of its own that is written in Python. The
operators of this module take the place of both.
"""

import torch
import torch.nn.functional as F

from levin_train import torch_patches
from levin_train.shims import shim

_LIBRARY = torch.library.Library("levin", "FRAGMENT")
_LIBRARY.define("grouped_mm(Tensor input, Tensor weight, Tensor offsets) -> Tensor")
_LIBRARY.define("grouped_mm_backward(Tensor input, Tensor weight, Tensor offsets, Tensor gradient) -> (Tensor, Tensor)")


@torch.library.register_fake("levin::grouped_mm")
def _(input, weight, offsets):
    return input.new_empty(input.shape[0], weight.shape[2])


@torch.library.register_fake("levin::grouped_mm_backward")
def _(input, weight, offsets, gradient):
    return input.new_empty(input.shape), weight.new_empty(weight.shape)


class _Grouped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, offsets):
        ctx.save_for_backward(input, weight, offsets)
        return torch.ops.levin.grouped_mm(input, weight, offsets)

    @staticmethod
    def backward(ctx, gradient):
        return *torch.ops.levin.grouped_mm_backward(*ctx.saved_tensors, gradient.contiguous()), None


def recorded():
    """While it lasts, grouped_mm() of rows with a matrix for each group can be recorded."""
    original = F.grouped_mm

    def grouped(input, weight, *, offs=None, bias=None, out_dtype=None):
        if input.dim() == 2 and weight.dim() == 3 and offs is not None and bias is None and out_dtype in (None, input.dtype):
            return _Grouped.apply(input.contiguous(), weight.contiguous(), offs)
        return original(input, weight, offs=offs, bias=bias, out_dtype=out_dtype)

    return torch_patches.grouped_products(grouped)


# transformers' operators, which have the same arguments and results.
SAME = {"transformers::grouped_mm_fallback": torch.ops.levin.grouped_mm.default,
        "transformers::grouped_mm_fallback_backward": torch.ops.levin.grouped_mm_backward.default}

_TENSORS = [f"AtenTensorHandle {name}" for name in ("x", "w", "offsets")]
_GROUPS = ("[&] { c10::AutoGradMode mode(false); const auto input = given(x), weight = given(w), ends = given(offsets).to(at::kLong); "
           "std::int64_t begin = 0; const auto each = [&](auto&& group) { for (std::int64_t index = 0; index < ends.numel(); ++index) { "
           "const std::int64_t end = ends.const_data_ptr<std::int64_t>()[index]; if (end > begin) group(index, end - begin); begin = end; } }; ")
_HEADERS = ("ATen/core/Tensor.h", "ATen/ops/mm.h", "ATen/ops/zeros.h", "ATen/ops/zeros_like.h")
SHIMS = {
    torch.ops.levin.grouped_mm.default: [shim(
        "grouped_mm", _TENSORS, 1, _HEADERS,
        _GROUPS + "auto output = at::zeros({input.size(0), weight.size(2)}, input.options()); each([&](std::int64_t index, std::int64_t size) { "
        "auto rows = output.narrow(0, begin, size); at::mm_out(rows, input.narrow(0, begin, size), weight.select(0, index)); }); "
        "return std::make_tuple(output); }()")],
    torch.ops.levin.grouped_mm_backward.default: [shim(
        "grouped_mm_backward", [*_TENSORS, "AtenTensorHandle gradient"], 2, _HEADERS,
        _GROUPS + "const auto outer = given(gradient); auto of_input = at::zeros_like(input), of_weight = at::zeros_like(weight); "
        "each([&](std::int64_t index, std::int64_t size) { auto rows = of_input.narrow(0, begin, size); auto matrix = of_weight.select(0, index); "
        "at::mm_out(rows, outer.narrow(0, begin, size), weight.select(0, index).t()); "
        "at::mm_out(matrix, input.narrow(0, begin, size).t(), outer.narrow(0, begin, size)); }); "
        "return std::make_tuple(of_input, of_weight); }()")],
}
