"""Tickets for what a forward pass on a GPU saved: a tensor of its first byte, whose storage is all of
it. So its size, which the plan knows alone, is no part of a graph.

A backward pass uses up what is saved. Where that is gone (a second backward pass, a copied ticket)
it has to repeat the forward pass, and is therefore a function of its other arguments alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Addresses of what was saved and is not used up. Forgetting one costs a forward pass.
_SAVED: dict[int, None] = {}
_MOST = 4096
_USED_UP = object()


def ticket_of(saved: Tensor) -> Tensor:
    """For bytes that a forward pass has filled, with a storage of their own."""
    if len(_SAVED) >= _MOST:
        _SAVED.clear()
    _SAVED[saved.data_ptr()] = None
    return saved[:1]


def no_ticket(x: Tensor) -> Tensor:
    """Of a forward pass that saved nothing."""
    return x.new_empty(1, dtype=torch.uint8)


def saved_by(ticket: Tensor, size: int) -> Tensor | None:
    """The `size` bytes that the forward pass saved, for one backward pass; None where they are
    gone."""
    storage = ticket.untyped_storage()
    is_used_up = _SAVED.pop(storage.data_ptr(), _USED_UP) is _USED_UP
    if is_used_up or storage.nbytes() != size:
        return None
    return torch.empty(0, dtype=torch.uint8, device=ticket.device).set_(storage)
