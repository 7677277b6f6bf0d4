"""``torch.vmap`` over recurrences: a mapped axis becomes lanes, networks computed together."""

from __future__ import annotations

import torch
from torch import Tensor

from ._config import Inputs


def _mapped(tensor: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    """With the mapped axis in front; what is not mapped is repeated, without a copy."""
    if tensor is None:
        return None
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _merged(tensor: Tensor | None, nested: bool) -> Tensor | None:
    """Mapped lanes (V, E, ..) as lanes (V * E, ..)."""
    return tensor.flatten(0, 1) if nested and tensor is not None else tensor


def _inner_lanes(dims: Inputs, inputs: Inputs) -> int | None:
    """How many networks there are within each mapped one, where `inputs` have an axis of lanes."""
    axes = list(inputs.weights[0].shape)
    if dims.weights[0] is not None:
        del axes[dims.weights[0]]
    return axes[0] if len(axes) == 3 else None


def _as_lanes(size: int, dims: Inputs, inputs: Inputs) -> Inputs:
    """`inputs` with a mapped axis of `size`, in the places that `dims` says, as lanes."""
    if dims.batch_sizes is not None:
        raise RuntimeError("drnn.torch: vmap over the lengths of packed sequences is not possible")
    inner = _inner_lanes(dims, inputs)
    nested = inner is not None
    x = inputs.x
    own_axes = 3 if inputs.batch_sizes is None else 2
    if dims.x is not None:
        x = x.movedim(dims.x, 0)
        if nested and x.dim() == own_axes + 1:  # inner lanes share it
            x = x.unsqueeze(1).expand(-1, inner, *x.shape[1:])
        x = _merged(x, nested)
    elif x.dim() > own_axes:  # every inner lane has its own
        x = _merged(_mapped(x, None, size), nested)
    weights = [
        _merged(_mapped(weight, dim, size), nested)
        for weight, dim in zip(inputs.weights, dims.weights)
    ]
    h0, c0, seed = (
        _merged(_mapped(tensor, dim, size), nested)
        for tensor, dim in [(inputs.h0, dims.h0), (inputs.c0, dims.c0), (inputs.seed, dims.seed)]
    )
    return Inputs(x, weights, h0, c0, inputs.batch_sizes, seed, inputs.dropout)


def _unmerged(tensor: Tensor, inner: int | None, size: int) -> tuple[Tensor, int | None]:
    """A result of lanes with the mapped axis in front, and that axis; None where it is empty."""
    if tensor.dim() == 1:
        return tensor, None
    return (tensor if inner is None else tensor.unflatten(0, (size, inner))), 0


def forward(size: int, dims: Inputs, inputs: Inputs, run):
    """What `run` returns for lanes: outputs, h_n, c_n and a ticket, and their mapped axes."""
    *results, ticket = run(_as_lanes(size, dims, inputs))
    inner = _inner_lanes(dims, inputs)
    found = [_unmerged(result, inner, size) for result in results]
    return (*(result for result, _ in found), ticket), (*(dim for _, dim in found), None)


def backward(size: int, dims: Inputs, inputs: Inputs, upstream, ticket: Tensor, needs_x: bool, run):
    """What `run` returns for lanes: gradients of x, weights, h_0 and c_0, and their mapped axes.
    `upstream` are pairs of a gradient and its mapped axis."""
    lanes, inner = _as_lanes(size, dims, inputs), _inner_lanes(dims, inputs)
    if needs_x and lanes.x_is_shared:
        # Its gradient is one of each lane, not their sum, so each needs an x of its own, and a
        # forward pass on that: a ticket of no pass has it repeated.
        lanes = lanes._replace(x=lanes.x.expand(*lanes.lanes, *lanes.x.shape))
        ticket = torch.zeros_like(ticket)
    nested = inner is not None
    upstream = [_merged(_mapped(d, dim, size), nested) if d.numel() else d for d, dim in upstream]
    found = [_unmerged(d, inner, size) for d in run(upstream, lanes, ticket)]
    return tuple(d for d, _ in found), tuple(dim for _, dim in found)
