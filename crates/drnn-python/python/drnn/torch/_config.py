"""What a recurrence computes (`Config`), and from what (`Inputs`)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class Config(NamedTuple):
    """A stack of recurrent layers without its parameters, or with `connections` the one layer that it
    is when it is flattened: k blocks of n units, whose delay is k - 1 steps longer."""

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bidirectional: bool
    proj_size: int
    delay: int
    look_ahead: bool
    connections: str = ""

    def encode(self) -> str:
        """As an argument of the operators, whose arguments are tensors, numbers and text."""
        mode, *sizes, connections = self
        return " ".join([mode, *(str(int(size)) for size in sizes), connections])

    @staticmethod
    def decode(text: str) -> Config:
        mode, q, n, layers, both, p, delay, ahead, connections = text.split(" ")
        sizes = int(q), int(n), int(layers), both == "1", int(p), int(delay)
        return Config(mode, *sizes, ahead == "1", connections)

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def state_size(self) -> int:
        """Width of h."""
        return self.proj_size or self.hidden_size

    @property
    def output_size(self) -> int:
        return self.directions * self.state_size

    @property
    def has_cell_state(self) -> bool:
        return self.mode == "LSTM"

    @property
    def gates(self) -> int:
        return _GATES[self.mode]

    @property
    def units(self) -> int:
        """Of a layer: those of all blocks, if it has blocks."""
        return self.hidden_size * (self.num_layers if self.connections else 1)

    @property
    def bias_size(self) -> int:
        return self.gates * self.units

    @property
    def lag(self) -> int:
        """Steps by which the last block runs after the first."""
        return self.num_layers - 1 if self.connections else 0

    @property
    def ahead(self) -> int:
        """Elements at the end that are only looked at."""
        return self.delay - self.lag if self.look_ahead else 0

    def shapes(self) -> list[tuple[int, ...]]:
        """Of all parameters with biases, in torch's order, which is drnn's too."""
        rows, shapes = self.bias_size, []
        if self.connections:
            shapes = [(rows, self.input_size), (rows, self.units), (rows,), (rows,)]
            return shapes + [(self.units, self.units)] * (self.mode == "GRU")
        for layer in range(self.num_layers):
            width = self.input_size if layer == 0 else self.output_size
            for _ in range(self.directions):
                shapes += [(rows, width), (rows, self.state_size), (rows,), (rows,)]
                if self.proj_size:
                    shapes.append((self.proj_size, self.hidden_size))
        return shapes

    def names(self, bias: bool) -> list[str]:
        """Of the parameters, in the same order."""
        names = []
        for layer in range(1 if self.connections else self.num_layers):
            for suffix in ["", "_reverse"] if self.bidirectional else [""]:
                names += [f"weight_ih_l{layer}{suffix}", f"weight_hh_l{layer}{suffix}"]
                if bias:
                    names += [f"bias_ih_l{layer}{suffix}", f"bias_hh_l{layer}{suffix}"]
                if self.proj_size:
                    names.append(f"weight_hr_l{layer}{suffix}")
        return names + ["weight_hu_l0"] * (bool(self.connections) and self.mode == "GRU")

    def parameters(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes())

    def multiply_adds(self) -> int:
        """Of one step of one sequence."""
        return sum(shape[0] * shape[1] for shape in self.shapes() if len(shape) == 2)

    def split(self, params: Tensor) -> list[Tensor]:
        """The flat vector of parameters as views; with leading axes, those of each."""
        shapes, leading = self.shapes(), params.shape[:-1]
        parts = params.split([math.prod(shape) for shape in shapes], dim=-1)
        return [part.view(leading + shape) for part, shape in zip(parts, shapes)]

    def output_shape(self, x: Tensor, batch_sizes: Tensor | None, rows: int) -> tuple[int, ...]:
        """Of one network's outputs; packed ones lack the first d steps, which have all rows."""
        if batch_sizes is not None:
            return x.size(-2) - self.ahead * rows, self.output_size
        return x.size(-3) - self.ahead, rows, self.output_size


class Inputs(NamedTuple):
    """What a forward pass reads. Several networks of one shape may be computed together: each is a
    *lane*, and the tensors of all have an axis of lanes in front; `x` may be without it, and is
    then read by all of them."""

    x: Tensor  # (T, B, q), or (N, q) if packed
    weights: list[Tensor]  # with biases, in the order of `Config.names`
    h0: Tensor  # (layers * directions, B, state_size)
    c0: Tensor | None  # (layers * directions, B, hidden_size), of an LSTM
    batch_sizes: Tensor | None  # of packed sequences
    seed: Tensor | None  # of the dropout between layers, one for each lane
    dropout: float

    @property
    def lanes(self) -> tuple[int, ...]:
        """The leading axis: empty for one network, (E,) for E together."""
        return tuple(self.weights[0].shape[:1]) if self.weights[0].dim() == 3 else ()

    @property
    def x_is_shared(self) -> bool:
        return self.x.dim() == (3 if self.batch_sizes is None else 2)

    def lane(self, lane: int) -> Inputs:
        """One of several networks."""
        x = self.x if self.x_is_shared else self.x[lane]
        c0 = None if self.c0 is None else self.c0[lane]
        seed = None if self.seed is None else self.seed.reshape(-1)[lane]
        weights = [weight[lane] for weight in self.weights]
        return Inputs(x, weights, self.h0[lane], c0, self.batch_sizes, seed, self.dropout)

    def contiguous(self) -> Inputs:
        c0 = None if self.c0 is None else self.c0.contiguous()
        weights = [weight.contiguous() for weight in self.weights]
        return self._replace(x=self.x.contiguous(), weights=weights, h0=self.h0.contiguous(), c0=c0)

    def differentiable(self) -> list[Tensor]:
        """Everything that has a gradient: x, h_0, c_0 and the weights."""
        return [self.x, self.h0, *([] if self.c0 is None else [self.c0]), *self.weights]

    def with_differentiable(self, tensors: list[Tensor]) -> Inputs:
        """The same pass on other tensors, in the order of `differentiable`."""
        x, h0, *rest = tensors
        c0 = None if self.c0 is None else rest.pop(0)
        return self._replace(x=x, weights=rest, h0=h0, c0=c0)


def flat(lanes: tuple[int, ...], gradients: list[Tensor]) -> Tensor:
    """Gradients of weights as one vector for each lane."""
    return torch.cat([gradient.flatten(start_dim=len(lanes)) for gradient in gradients], dim=-1)
