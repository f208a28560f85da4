"""CTC losses in a graph: torch's operator gives a tensor whose size is that of the longest target, so one of levin stands in its place,
which gives the loss of each sequence and the gradient of it.
"""

import torch
import torch.nn.functional as F

from levin_train import torch_patches
from levin_train.shims import shim

_LIBRARY = torch.library.Library("levin", "FRAGMENT")
_LIBRARY.define("ctc_loss(Tensor log_probs, Tensor targets, Tensor lengths, Tensor target_lengths, int blank, bool zero_infinity, bool train) "
                "-> (Tensor, Tensor)")


@torch.library.register_fake("levin::ctc_loss")
def _(log_probs, targets, lengths, target_lengths, blank, zero_infinity, train):
    return log_probs.new_empty(log_probs.shape[1]), log_probs.new_empty(log_probs.shape if train else (0,))


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, log_probs, *rest):
        losses, gradient = torch.ops.levin.ctc_loss(log_probs, *rest, True)
        ctx.save_for_backward(gradient)
        return losses

    @staticmethod
    def backward(ctx, outer):
        return ctx.saved_tensors[0] * outer[None, :, None], None, None, None, None, None


def recorded():
    """While it lasts, F.ctc_loss() of a batch can be recorded."""
    original = F.ctc_loss

    def loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
        if log_probs.dim() != 3:
            return original(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
        lengths, target_lengths = (torch.as_tensor(each).to(torch.int64) for each in (input_lengths, target_lengths))
        tensors = (log_probs.contiguous(), targets, lengths, target_lengths, blank, zero_infinity)
        losses = _Loss.apply(*tensors) if torch.is_grad_enabled() else torch.ops.levin.ctc_loss(*tensors, False)[0]
        if zero_infinity:
            losses = torch.where(losses == torch.inf, losses.new_zeros(()), losses)
        if reduction == "mean":
            return (losses / target_lengths.clamp(min=1)).mean()
        return losses.sum() if reduction == "sum" else losses

    return torch_patches.ctc_loss(loss)


_GIVEN = "given(x), given(targets), given(lengths), given(target_lengths)"
SHIMS = {
    torch.ops.levin.ctc_loss.default: [shim(
        "ctc_loss", [*(f"AtenTensorHandle {name}" for name in ("x", "targets", "lengths", "target_lengths")), "int64_t blank",
                     "int32_t zero_infinity", "int32_t train"], 2, ("ATen/core/Tensor.h", "ATen/ops/_ctc_loss.h", "ATen/ops/_ctc_loss_backward.h",
                                                                    "ATen/ops/ones_like.h"),
        f"[&] {{ c10::AutoGradMode mode(false); auto [losses, alpha] = at::_ctc_loss({_GIVEN}, blank, zero_infinity); "
        f"auto gradient = train ? at::_ctc_loss_backward(at::ones_like(losses), {_GIVEN}, losses, alpha, blank, zero_infinity) "
        ": losses.new_empty({0}); return std::make_tuple(losses, gradient); }()")],
}
