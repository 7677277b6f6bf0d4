"""Forward and backward passes on drnn's kernels.

What a forward pass saves for its backward pass stays in drnn's memory. The pass returns a *ticket*
for it: a tensor of one byte whose storage keeps that memory alive. Autograd saves the ticket as it
saves any tensor, so the memory returns to the pool when the graph is freed. The address of the
storage finds the memory again. Where it is gone (a second backward pass, a copied ticket), the
backward pass repeats the forward pass. It therefore is a function of its other arguments alone, and
graphs may be compiled, stored and moved like those of any operator.
"""

from __future__ import annotations

import math
import os
import weakref
from functools import lru_cache

import numpy
import torch
from torch import Tensor

from drnn._drnn import NotFinite, Recurrence

from . import _cuda_packing
from ._config import Config, Inputs
from ._openmp import end_idle_threads
from ._reference import reference_gradients, reference_outputs

TICKETS: weakref.WeakValueDictionary[int, _Ticket] = weakref.WeakValueDictionary()
_SHAPES: weakref.WeakSet[Shape] = weakref.WeakSet()
_FIXED_THREADS = "DRNN_THREADS" in os.environ

# Multiply-adds of a forward pass below which one thread is faster: other threads have to be woken,
# while torch's idle ones are still busy waiting.
_WORTH_THREADS = 60_000_000


class _Ticket(bytearray):
    """The memory of the tensor that stands for a saved pass."""

    saved: object


class Shape:
    """A network shape: its configuration and drnn's memory for it."""

    def __init__(self, config: Config):
        self.config = config
        self.recurrence = Recurrence(*config)
        self.multiply_adds = config.multiply_adds()


@lru_cache(maxsize=64)
def shape_of(config: Config) -> Shape:
    shape = Shape(config)
    _SHAPES.add(shape)
    return shape


def empty_cache() -> None:
    """Frees the memory that drnn keeps for the next passes."""
    _cuda_packing.empty_cache()
    for shape in list(_SHAPES):
        shape.recurrence.clear()


def _prepare_threads(shape: Shape, inputs: Inputs) -> int:
    """How many threads a pass runs on: torch's number, or one if it is short. Before a long one,
    ends torch's idle threads (see `_openmp`)."""
    threads = int(os.environ["DRNN_THREADS"]) if _FIXED_THREADS else torch.get_num_threads()
    steps = inputs.x.numel() // shape.config.input_size
    lanes = math.prod(inputs.lanes) if inputs.x_is_shared else 1
    if threads == 1 or shape.multiply_adds * steps * lanes < _WORTH_THREADS:
        return 1
    if threads <= 16:
        end_idle_threads()
    return threads


def _array(tensor: Tensor | None):
    """A view for drnn of memory that torch owns."""
    return None if tensor is None else tensor.detach().numpy()


def _weight_array(weight: Tensor):
    """The same for a weight, by DLPack: `Tensor.numpy` forbids that its storage is ever resized, which
    FSDP does to free weights between passes."""
    return numpy.from_dlpack(weight.detach())


def _arrays(inputs: Inputs) -> dict:
    """What drnn's kernels read."""
    return {
        "lanes": math.prod(inputs.lanes),
        "weights": [_weight_array(weight) for weight in inputs.weights],
        "x": _array(inputs.x),
        "h0": _array(inputs.h0),
        "c0": _array(inputs.c0),
        "sizes": _array(inputs.batch_sizes),
    }


def _forward(shape: Shape, inputs: Inputs, results: tuple[Tensor, Tensor, Tensor | None]):
    """A pass that can go back, into memory for outputs, h_n and c_n."""
    outputs, h, c = (_array(result) for result in results)
    seeds = [] if inputs.seed is None else inputs.seed.reshape(-1).tolist()
    into = {"outputs": outputs, "h": h, "c": c}
    threads = _prepare_threads(shape, inputs)
    return shape.recurrence.forward(threads, _arrays(inputs), inputs.dropout, seeds, into)


def forward_pass(shape: Shape, inputs: Inputs, save: bool):
    """Outputs, h_n, c_n (empty if there is none), and a ticket for the backward pass."""
    inputs = inputs.contiguous()
    x, _, h0, c0, batch_sizes, _, dropout = inputs
    size = shape.config.output_shape(x, batch_sizes, h0.size(-2))
    outputs = x.new_empty(inputs.lanes + tuple(max(length, 0) for length in size))
    h, c = torch.empty_like(h0), None if c0 is None else torch.empty_like(c0)
    saved = None
    try:
        if save or dropout > 0 or inputs.lanes:
            saved = _forward(shape, inputs, (outputs, h, c))
        else:
            into = {"outputs": _array(outputs), "h": _array(h), "c": _array(c)}
            shape.recurrence.run(_prepare_threads(shape, inputs), _arrays(inputs), into)
    except NotFinite:
        results = reference_outputs(shape.config, inputs)
        outputs, h, c = (None if r is None else r.contiguous() for r in results)
        saved = None
    c = x.new_empty(0) if c is None else c
    if not save or saved is None:
        return outputs, h, c, torch.zeros(1, dtype=torch.uint8)
    ticket = _Ticket(1)
    ticket.saved = saved
    tensor = torch.frombuffer(ticket, dtype=torch.uint8)
    TICKETS[tensor.data_ptr()] = ticket
    return outputs, h, c, tensor


def backward_pass(
    shape: Shape, inputs: Inputs, ticket: Tensor, upstream: tuple[Tensor, ...], needs_x: bool
):
    """Gradients of x (empty if not needed), of all weights as one vector, of h_0 and c_0 (empty if
    there is none), from those of outputs, h_n and c_n."""
    inputs = inputs.contiguous()
    d_outputs, d_h, d_c = (gradient.contiguous() for gradient in upstream)
    x, weights, h0, c0, *_ = inputs
    d_params = x.new_empty(*inputs.lanes, shape.recurrence.parameters)
    d_h0, d_c0 = torch.empty_like(h0), None if c0 is None else torch.empty_like(c0)
    d_x = torch.empty_like(x) if needs_x else None
    arguments = (
        *(math.prod(inputs.lanes), [_weight_array(weight) for weight in weights], _array(x)),
        *(_array(d_outputs), _array(d_h), None if c0 is None else _array(d_c)),
        *(_array(d_params), _array(d_x), _array(d_h0), _array(d_c0)),
    )
    held = TICKETS.get(ticket.data_ptr())
    try:
        _prepare_threads(shape, inputs)  # the saved pass knows how many
        if held is None or not held.saved.backward(*arguments):
            c = None if c0 is None else torch.empty_like(c0)
            results = torch.empty_like(d_outputs), torch.empty_like(h0), c
            _forward(shape, inputs, results).backward(*arguments)
    except NotFinite:
        found = reference_gradients(shape.config, inputs, (d_outputs, d_h, d_c))
        d_x, d_params, d_h0, d_c0 = found
    d_x = d_x if needs_x else x.new_empty(0)
    return d_x, d_params, d_h0, x.new_empty(0) if d_c0 is None else d_c0
