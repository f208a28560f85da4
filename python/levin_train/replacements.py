"""Functions of torch whose recording would fix a size or read a value, computed by others. Each gives None where it does not apply."""

import torch


def _fill_diagonal(tensor, value, wrap=False):
    if tensor.dim() != 2 or isinstance(value, torch.Tensor):
        return None
    return tensor.masked_fill_(torch.eye(tensor.shape[0], tensor.shape[1], dtype=torch.bool, device=tensor.device), value)


def _cov(tensor, *, correction=1, fweights=None, aweights=None):
    if tensor.dim() != 2 or not tensor.is_floating_point() or fweights is not None or aweights is not None:
        return None
    centered = tensor - tensor.mean(1, keepdim=True)
    return centered @ centered.T / torch.clamp(torch.scalar_tensor(tensor.shape[1] - correction, dtype=tensor.dtype), min=0)


def _corrcoef(tensor):
    covariance = _cov(tensor)
    if covariance is None:
        return None
    deviation = covariance.diagonal().sqrt()
    return (covariance / deviation[:, None] / deviation[None, :]).clamp(-1, 1)


FUNCTIONS = {"fill_diagonal_": _fill_diagonal, "cov": _cov, "corrcoef": _corrcoef}


def bincount(values, weights=None, minlength=0):
    """For values below `minlength`, of which torch gives that many counts. None without it."""
    if not isinstance(minlength, int) or minlength < 1:
        return None
    if weights is None:
        weights = torch.ones_like(values, dtype=torch.int64)
    elif weights.dtype != torch.float32:
        weights = weights.to(torch.float64)
    return torch.zeros(minlength, dtype=weights.dtype, device=values.device).scatter_add(0, values.to(torch.int64).clamp(0, minlength - 1), weights)
