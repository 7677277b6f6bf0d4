"""Packed sequences on a GPU: where their elements lie in a padded batch.

Kernels read padded batches (T, B, ..) and the lengths of sequences, which lie on the device. So
packed elements are copied to their places and back, by one operator of torch's each; both are
described by one array, which is copied to the device once per batch.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import Tensor

from . import _cuda
from ._config import Config

_MOST = 64
_KNOWN: OrderedDict[tuple, Packing] = OrderedDict()
# Those that captured CUDA graphs read: never freed.
_CAPTURED: dict[tuple, Packing] = {}


class Packing(NamedTuple):
    """A packed batch whose sequences run for `steps` steps at most, those of a delay among them."""

    steps: int
    rows: int
    lengths: Tensor  # (B), steps that each sequence runs
    places: Tensor  # (N), for each packed element its row of (T * B, ..)
    null_steps: int  # zeros that are read after the end of each sequence
    ahead: int  # elements at the end of each sequence without an output

    def padded(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """(T, B, q) from (N, q). Kernels do not read what stands after the end of a sequence, other
        than zeros of a delay."""
        shape = self.steps * self.rows, x.size(-1)
        make = x.new_zeros if self.null_steps else x.new_empty
        to = make(shape, dtype=dtype).index_copy_(0, self.places, x.to(dtype))
        return to.view(self.steps, self.rows, -1)

    def packed(self, padded: Tensor) -> Tensor:
        """The elements of x, or their gradients."""
        return padded.view(self.steps * self.rows, -1).index_select(0, self.places)

    def _output_places(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of outputs, and the places of outputs among them: output t is that of step t + d."""
        if self.null_steps:
            return flat[self.null_steps * self.rows :], self.places
        return flat, self.places[self.ahead * self.rows :]

    def packed_outputs(self, padded: Tensor) -> Tensor:
        flat, places = self._output_places(padded.view(self.steps * self.rows, -1))
        return flat.index_select(0, places)

    def padded_outputs(self, packed: Tensor) -> Tensor:
        """The gradients of outputs: zeros for steps that have none."""
        shape = self.steps * self.rows, packed.size(-1)
        delayed = self.null_steps or self.ahead
        to = packed.new_zeros(shape) if delayed else packed.new_empty(shape)
        flat, places = self._output_places(to)
        flat.index_copy_(0, places, packed)
        return to.view(self.steps, self.rows, -1)


def _check(sizes: tuple[int, ...], elements: int, config: Config) -> None:
    """Kernels write where these sizes say: nothing of them is taken on trust."""
    is_sorted = all(a >= b for a, b in zip(sizes, sizes[1:]))
    if not sizes or sizes[-1] < 1 or not is_sorted or sum(sizes) != elements:
        raise RuntimeError(
            f"batch_sizes of a packed input must be positive, must not increase, and their sum "
            f"must be the number of elements, {elements}; got {list(sizes)}"
        )
    ahead = config.delay if config.look_ahead else 0
    if ahead and (len(sizes) <= ahead or sizes[ahead] != sizes[0]):
        raise RuntimeError(
            f"every sequence needs more than {ahead} elements: the last {ahead} are only looked at"
        )


def _on_device(host: Tensor, device: torch.device) -> Tensor:
    """A copy that nobody waits for."""
    if device.type != "cuda":
        return host
    pinned = torch.empty(host.shape, dtype=host.dtype, pin_memory=True)
    return pinned.copy_(host).to(device, non_blocking=True)


def _new(sizes: tuple[int, ...], config: Config, device: torch.device) -> Packing:
    steps, rows, ahead = len(sizes), sizes[0], config.delay if config.look_ahead else 0
    null_steps = config.delay - ahead
    runs = torch.arange(rows) < torch.tensor(sizes).unsqueeze(1)  # (T, B)
    lengths, places = runs.sum(0) + null_steps, runs.flatten().nonzero().squeeze(1)
    both = _on_device(torch.cat([lengths, places]), device)
    return Packing(steps + null_steps, rows, both[:rows], both[rows:], null_steps, ahead)


def packing_of(config: Config, x: Tensor, batch_sizes: Tensor) -> Packing:
    """Made once for batches of the same lengths: for all layers and both passes, and again."""
    sizes, device = tuple(batch_sizes.tolist()), x.device
    _check(sizes, x.size(0), config)
    key = sizes, config.delay, config.look_ahead, device
    if device.type == "cuda" and _cuda.is_capturing():
        return _captured(key)
    # Another stream would not wait for the copy.
    stream = torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0
    key += (stream,)
    found = _KNOWN.pop(key, None) or _new(sizes, config, device)
    _KNOWN[key] = found
    if len(_KNOWN) > _MOST:
        _KNOWN.popitem(last=False)
    return found


def empty_cache() -> None:
    """Frees what no captured graph reads."""
    _KNOWN.clear()


def _captured(key: tuple) -> Packing:
    """What is known already: a graph would copy again from host memory that is in other use
    then."""
    found = _CAPTURED.get(key)
    if found is None:
        known = [packing for k, packing in list(_KNOWN.items()) if k[:-1] == key]
        if not known:
            raise RuntimeError(
                "drnn.torch: packed sequences of these lengths have not been seen; run the module "
                "once on them before it is captured in a CUDA graph"
            )
        found = _CAPTURED.setdefault(key, known[-1])
    return found
