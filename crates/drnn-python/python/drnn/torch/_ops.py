"""The operators ``drnn::rnn_forward`` and ``drnn::rnn_backward``.

What a forward pass saves for its backward pass stays in drnn's memory. The operator returns a
*ticket* for it: a tensor of one byte whose storage keeps that memory alive. Autograd saves the
ticket as it saves any tensor, so the memory returns to the pool when the graph is freed. The
address of the storage finds the memory again. Where it is gone (a second backward pass, a copied
ticket), the backward operator repeats the forward pass. It therefore is a function of its other
arguments alone, and graphs may be compiled, stored and moved like those of any operator.
"""

from __future__ import annotations

import os
import threading
import weakref
from functools import lru_cache

import torch
from torch import Tensor

from drnn._drnn import NotFinite, Recurrence

from ._openmp import end_idle_threads
from ._reference import Config, reference

_TICKETS: weakref.WeakValueDictionary[int, _Ticket] = weakref.WeakValueDictionary()
_RECURRENCES: weakref.WeakSet[_Shape] = weakref.WeakSet()
_FIXED_THREADS = "DRNN_THREADS" in os.environ


class _Ticket(bytearray):
    """The memory of the tensor that stands for a saved pass."""

    saved: object


class _Shape:
    """A network shape: its configuration and drnn's memory for it."""

    def __init__(self, text: str):
        self.config = Config.decode(text)
        self.recurrence = Recurrence(*self.config)


@lru_cache(maxsize=64)
def shape_of(text: str) -> _Shape:
    shape = _Shape(text)
    _RECURRENCES.add(shape)
    return shape


def empty_cache() -> None:
    """Frees the memory that drnn keeps for the next passes."""
    for shape in list(_RECURRENCES):
        shape.recurrence.clear()


def _threads() -> int:
    return int(os.environ["DRNN_THREADS"]) if _FIXED_THREADS else torch.get_num_threads()


def _end_idle_threads(config: Config, x: Tensor) -> None:
    """Where a pass is long enough for it; see `_openmp`."""
    threads = torch.get_num_threads()
    products = config.multiply_adds() * (x.numel() // x.size(-1))
    if 1 < threads <= 16 and products // threads > 10_000_000:
        end_idle_threads()


def _array(tensor: Tensor | None):
    """A view for drnn of memory that torch owns."""
    return None if tensor is None else tensor.detach().numpy()


def _output_shape(config: Config, x, batch_sizes, rows):
    """Of the outputs; packed ones lack the first d steps, which have all rows."""
    ahead = config.delay if config.look_ahead else 0
    if batch_sizes is not None:
        return x.size(0) - ahead * rows, config.output_size
    return x.size(0) - ahead, rows, config.output_size


def _seed(seed: Tensor | None) -> int:
    return 0 if seed is None else int(seed)


def _forward(x, params, h0, c0, batch_sizes, seed, text, dropout, save):
    shape = shape_of(text)
    config = shape.config
    x, params, h0 = x.contiguous(), params.contiguous(), h0.contiguous()
    c0 = None if c0 is None else c0.contiguous()
    size = _output_shape(config, x, batch_sizes, h0.size(1))
    outputs = x.new_empty([max(length, 0) for length in size])
    h, c = torch.empty_like(h0), x.new_empty(0) if c0 is None else torch.empty_like(c0)
    _end_idle_threads(config, x)
    into = _array(outputs), _array(h), None if c0 is None else _array(c)
    given = _threads(), _array(params), _array(x), _array(h0), _array(c0), _array(batch_sizes)
    try:
        if save or dropout > 0:
            saved = shape.recurrence.forward(*given, dropout, _seed(seed), *into)
        else:
            shape.recurrence.run(*given, *into)
    except NotFinite:
        found = _reference_outputs(config, x, params, h0, c0, batch_sizes, seed, dropout)
        outputs, h, last = (None if f is None else f.contiguous() for f in found)
        return outputs, h, c if last is None else last, torch.zeros(1, dtype=torch.uint8)
    if not save:
        return outputs, h, c, torch.zeros(1, dtype=torch.uint8)
    ticket = _Ticket(1)
    ticket.saved = saved
    tensor = torch.frombuffer(ticket, dtype=torch.uint8)
    _TICKETS[tensor.data_ptr()] = ticket
    return outputs, h, c, tensor


def _backward(
    d_outputs, d_h, d_c, x, params, h0, c0, batch_sizes, seed, ticket, text, dropout, needs_x
):
    shape = shape_of(text)
    x, params, h0 = x.contiguous(), params.contiguous(), h0.contiguous()
    d_outputs, d_h, d_c = d_outputs.contiguous(), d_h.contiguous(), d_c.contiguous()
    c0 = None if c0 is None else c0.contiguous()
    d_params, d_h0 = torch.empty_like(params), torch.empty_like(h0)
    d_x = torch.empty_like(x) if needs_x else x.new_empty(0)
    d_c0 = x.new_empty(0) if c0 is None else torch.empty_like(c0)
    has_c = c0 is not None
    arguments = (
        *(_array(params), _array(x), _array(d_outputs)),
        *(_array(d_h), _array(d_c) if has_c else None),
        *(_array(d_params), _array(d_x) if needs_x else None),
        *(_array(d_h0), _array(d_c0) if has_c else None),
    )
    _end_idle_threads(shape.config, x)
    held = _TICKETS.get(ticket.data_ptr())
    try:
        if held is None or not held.saved.backward(*arguments):
            outputs = _array(torch.empty_like(d_outputs))
            h = _array(torch.empty_like(h0))
            c = None if c0 is None else _array(torch.empty_like(c0))
            given = _threads(), _array(params), _array(x), _array(h0), _array(c0)
            sizes, seeded = _array(batch_sizes), _seed(seed)
            again = shape.recurrence.forward(*given, sizes, dropout, seeded, outputs, h, c)
            again.backward(*arguments)
    except NotFinite:
        given = shape.config, x, params, h0, c0, batch_sizes, seed, dropout
        found = _reference_gradients(given, (d_outputs, d_h, d_c))
        d_x = found[0] if needs_x else d_x
        d_params, d_h0, d_c0 = found[1], found[2], d_c0 if c0 is None else found[3]
    return d_x, d_params, d_h0, d_c0


def _reference_outputs(config, x, params, h0, c0, batch_sizes, seed, dropout):
    """By torch's operator, which computes with NaN and infinity too."""
    weights = config.split(params)
    if dropout == 0:
        return reference(config, x, weights, True, h0, c0, batch_sizes, 0.0, False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_seed(seed))
        return reference(config, x, weights, True, h0, c0, batch_sizes, dropout, True)


def _reference_gradients(given, d_results):
    """Gradients by torch's operator. In a thread of its own, because autograd is switched off for
    the thread that computes an operator."""
    found, failed = [], []

    def work():
        try:
            config, x, params, h0, c0, *rest = given
            inputs = [t.detach().clone().requires_grad_() for t in (x, params, h0)]
            inputs += [] if c0 is None else [c0.detach().clone().requires_grad_()]
            c = None if c0 is None else inputs[3]
            results = _reference_outputs(config, *inputs[:3], c, *rest)
            pairs = [(r, d) for r, d in zip(results, d_results) if r is not None]
            results, gradients = zip(*pairs)
            found.extend(torch.autograd.grad(results, inputs, gradients))
        except Exception as error:  # raised again below
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return [gradient.contiguous() for gradient in found]


def _forward_fake(x, params, h0, c0, batch_sizes, seed, text, dropout, save):
    outputs = x.new_empty(_output_shape(Config.decode(text), x, batch_sizes, h0.size(1)))
    c = x.new_empty(0) if c0 is None else c0.new_empty(c0.shape)
    return outputs, h0.new_empty(h0.shape), c, x.new_empty(1, dtype=torch.uint8)


def _backward_fake(
    d_outputs, d_h, d_c, x, params, h0, c0, batch_sizes, seed, ticket, text, dropout, needs_x
):
    d_x = x.new_empty(x.shape if needs_x else 0)
    d_c0 = x.new_empty(0) if c0 is None else c0.new_empty(c0.shape)
    return d_x, params.new_empty(params.shape), h0.new_empty(h0.shape), d_c0


def _save(ctx, inputs, output):
    x, params, h0, c0, batch_sizes, seed, ctx.text, ctx.dropout, _ = inputs
    ctx.save_for_backward(x, params, h0, c0, batch_sizes, seed, output[3])


def _differentiate(ctx, d_outputs, d_h, d_c, _):
    *given, ticket = ctx.saved_tensors
    c0, needs_x = given[3], ctx.needs_input_grad[0]
    d_x, d_params, d_h0, d_c0 = torch.ops.drnn.rnn_backward(
        d_outputs, d_h, d_c, *given, ticket, ctx.text, ctx.dropout, needs_x
    )
    needed = zip(ctx.needs_input_grad, (d_x, d_params, d_h0, None if c0 is None else d_c0))
    return (*(d if needs else None for needs, d in needed), None, None, None, None, None)


def _save_backward(ctx, inputs, output):
    *tensors, ctx.text, ctx.dropout, ctx.needs_x = inputs
    ctx.save_for_backward(*tensors[:9])


def _differentiate_twice(ctx, *gradients):
    """Second derivatives, by torch's operator."""
    if torch.is_grad_enabled():
        raise RuntimeError("drnn.torch has no third derivatives; use torch.nn's module instead")
    if ctx.dropout > 0:
        raise RuntimeError(
            "drnn.torch has no second derivatives with dropout; use torch.nn's module instead"
        )
    config = Config.decode(ctx.text)
    *tensors, batch_sizes, _ = ctx.saved_tensors
    with torch.enable_grad():
        tensors = [None if t is None else t.detach().requires_grad_() for t in tensors]
        d_results, (x, params, h0, c0) = tensors[:3], tensors[3:]
        results = reference(
            config, x, config.split(params), True, h0, c0, batch_sizes, 0.0, False
        )
        pairs = [(r, d) for r, d in zip(results, d_results) if r is not None]
        inputs = [t for t in (x, params, h0, c0) if t is not None]
        results, upstream = zip(*pairs)
        first = torch.autograd.grad(results, inputs, upstream, create_graph=True)
    wanted = [i for i in range(len(first)) if i > 0 or ctx.needs_x]
    first, gradients = [first[i] for i in wanted], [gradients[i] for i in wanted]
    variables = [t for t in tensors if t is not None and t.numel() > 0]
    second = iter(torch.autograd.grad(first, variables, gradients, allow_unused=True))
    found = [next(second) if t is not None and t.numel() > 0 else None for t in tensors]
    return (*found, None, None, None, None, None, None)


_LIBRARY = torch.library.Library("drnn", "FRAGMENT")
_LIBRARY.define(
    "rnn_forward(Tensor x, Tensor params, Tensor h0, Tensor? c0, Tensor? batch_sizes, "
    "Tensor? seed, str shape, float dropout, bool save) -> (Tensor, Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order),
)
_LIBRARY.define(
    "rnn_backward(Tensor d_outputs, Tensor d_h, Tensor d_c, Tensor x, Tensor params, Tensor h0, "
    "Tensor? c0, Tensor? batch_sizes, Tensor? seed, Tensor ticket, str shape, float dropout, "
    "bool needs_x) -> (Tensor, Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order),
)
_LIBRARY.impl("rnn_forward", _forward, "CPU")
_LIBRARY.impl("rnn_backward", _backward, "CPU")
torch.library.register_fake("drnn::rnn_forward", _forward_fake, lib=_LIBRARY)
torch.library.register_fake("drnn::rnn_backward", _backward_fake, lib=_LIBRARY)
torch.library.register_autograd(
    "drnn::rnn_forward", _differentiate, setup_context=_save, lib=_LIBRARY
)
torch.library.register_autograd(
    "drnn::rnn_backward", _differentiate_twice, setup_context=_save_backward, lib=_LIBRARY
)
