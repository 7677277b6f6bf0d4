"""Passes of several networks of one shape on a GPU, which `torch.vmap` maps: lanes.

A small network occupies some of the multiprocessors, so lanes are submitted to a few streams in
turn and run side by side. All memory is the current stream's, which waits for them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import _cuda
from ._config import Config, Inputs
from ._cuda_passes import addresses_of, batch_of, call_of, check, plan_of, sizes_of
from ._cuda_tickets import saved_by, ticket_of

_ALIGNMENT = 256  # of what a pass saves, and of its workspace


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _address(tensor: Tensor | None, lane: int) -> int:
    """Of a lane; an axis of 1 is shared by all lanes."""
    if tensor is None:
        return 0
    own = lane if tensor.size(0) > 1 else 0
    return tensor.data_ptr() + own * tensor.stride(0) * tensor.element_size()


class _Lanes:
    """What both passes read and submit. Tensors have an axis of lanes in front, also where there is
    one network; that of x is 1 where lanes share it."""

    def __init__(self, config: Config, inputs: Inputs):
        inputs = inputs.contiguous()
        self.axes = inputs.lanes
        self.count = math.prod(self.axes)
        x = inputs.x.unsqueeze(0) if inputs.x_is_shared else inputs.x
        self.call = call_of(config, x.dtype, x[0], inputs.batch_sizes)
        self.plan = plan_of(self.call, x[0], True)
        self.steps, self.rows = batch_of(self.call, x[0])
        packing = self.call.packing
        self.lengths = None if packing is None else packing.lengths.unsqueeze(0)
        self.x = self._each(x, lambda packing, one: packing.padded(one, x.dtype))
        given = [self._laned(t) for t in (*inputs.weights, inputs.h0, inputs.c0)]
        *self.weights, self.h0, self.c0 = given
        check(self.call.config, self.rows, x, self.weights, (self.h0, self.c0), lanes=1)
        self.saved_size = _aligned(self.plan.saved_bytes)

    def _laned(self, tensor: Tensor | None) -> Tensor | None:
        return tensor if tensor is None or self.axes else tensor.unsqueeze(0)

    def _each(self, tensor: Tensor, work) -> Tensor:
        """`work(packing, lane)` for every lane of packed sequences."""
        packing = self.call.packing
        if packing is None:
            return tensor
        return torch.stack([work(packing, one) for one in tensor])

    def _bytes(self, count: int, size: int) -> Tensor:
        return torch.empty((count, size), dtype=torch.uint8, device=self.x.device)

    def _empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty((self.count, *shape), dtype=dtype, device=self.x.device)

    def unlaned(self, tensor: Tensor) -> Tensor:
        """As the caller counts networks."""
        return tensor if self.axes else tensor.squeeze(0)

    def _submit(self, submit, arrays: list[Tensor | None]) -> None:
        """`submit(stream, addresses of the weights, those of arrays and workspace, lane)`."""
        device, streams = self.x.device.index, min(self.count, _cuda.SIDE_STREAMS)
        workspace = self._bytes(streams, _aligned(self.plan.workspace_bytes))
        with _cuda.device_guard(device), _cuda.side_streams(device, streams) as handles:
            for lane in range(self.count):
                weights = [_address(weight, lane) for weight in self.weights]
                addresses = [_address(tensor, lane) for tensor in arrays]
                addresses.append(_address(workspace, lane % streams))
                submit(handles[lane % streams], weights, addresses, lane)

    def forward(self):
        """Outputs (lanes, T, B, ..), h_n, c_n or None, and what is saved."""
        y = self._empty(self.steps, self.rows, self.call.config.output_size, dtype=self.x.dtype)
        h_n, c_n = torch.empty_like(self.h0), None if self.c0 is None else torch.empty_like(self.c0)
        saved = self._bytes(self.count, self.saved_size)

        def submit(stream, weights, addresses, lane):
            self.plan.forward(stream, weights, addresses)

        arrays = [self.x, self.h0, self.c0, self.lengths, y, h_n, c_n, saved]
        self._submit(submit, arrays)
        return y, h_n, c_n, saved

    def outputs(self, y: Tensor) -> Tensor:
        return self.unlaned(self._each(y, lambda packing, one: packing.packed_outputs(one)))

    def backward(self, saved: Tensor, upstream, needs_x: bool):
        """Gradients of x (lanes, T, B, q) or None, of all weights as one vector of each lane, of h_0,
        and of c_0 or None."""
        d_y, d_h, d_c = (self._laned(d) for d in upstream)
        d_y = self._each(d_y.to(self.x.dtype), lambda packing, one: packing.padded_outputs(one))
        d_y, d_h = d_y.contiguous(), d_h.contiguous()
        d_c = None if d_c is None else d_c.contiguous()
        d_x = self._empty(*self.x.shape[1:], dtype=self.x.dtype) if needs_x else None
        d_h0, d_c0 = torch.empty_like(self.h0), None if d_c is None else torch.empty_like(self.c0)
        sizes = sizes_of(self.call.config, True)
        d_params = self._empty(sum(sizes))

        def submit(stream, weights, addresses, lane):
            into = addresses_of(d_params[lane], sizes)
            self.plan.backward(stream, weights, into, addresses)

        saved = saved.view(self.count, self.saved_size)
        self._submit(submit, [d_y, d_h, d_c, d_x, d_h0, d_c0, saved])
        return d_x, d_params, d_h0, d_c0

    def input_gradient(self, d_x: Tensor) -> Tensor:
        """As x lies: the sum over lanes where they share it."""
        d_x = self._each(d_x, lambda packing, one: packing.packed(one))
        if self.count > 1 and self.x.size(0) == 1:
            return d_x.sum(0, dtype=torch.float32).to(d_x.dtype)
        return self.unlaned(d_x)


def forward_pass(config: Config, inputs: Inputs):
    """Outputs, h_n, c_n (empty if there is none), and a ticket for the backward pass, of an undelayed
    network or of packed sequences. x is of 16 bits, everything else float32."""
    lanes = _Lanes(config, inputs)
    y, h_n, c_n, saved = lanes.forward()
    c_n = h_n.new_empty(0) if c_n is None else lanes.unlaned(c_n)
    return lanes.outputs(y), lanes.unlaned(h_n), c_n, ticket_of(saved)


def backward_pass(config: Config, inputs: Inputs, ticket: Tensor, upstream, needs_x: bool):
    """Gradients of x (empty if not needed), of all weights as one vector, of h_0 and c_0 (empty if
    there is none), from those of outputs, h_n and c_n."""
    lanes = _Lanes(config, inputs)
    saved = saved_by(ticket, lanes.count * lanes.saved_size)
    if saved is None:
        *_, saved = lanes.forward()
    d_outputs, d_h, d_c = upstream
    upstream = d_outputs, d_h, None if lanes.c0 is None else d_c
    d_x, d_params, d_h0, d_c0 = lanes.backward(saved, upstream, needs_x)
    empty = d_h0.new_empty(0)
    d_x = inputs.x.new_empty(0) if d_x is None else lanes.input_gradient(d_x)
    d_h0, d_params = lanes.unlaned(d_h0), lanes.unlaned(d_params)
    return d_x, d_params, d_h0, empty if d_c0 is None else lanes.unlaned(d_c0)
