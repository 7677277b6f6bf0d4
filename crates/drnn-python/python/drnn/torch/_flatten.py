"""A stack of layers as one delayed layer, and back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._config import Config
from ._modules import GRU, LSTM, RNN, _Recurrent
from ._passes import shape_of

_STACKS = {"LSTM": LSTM, "GRU": GRU, "RNN_TANH": RNN, "RNN_RELU": RNN}


class Flattened(_Recurrent):
    """A stack of k layers of n units as one layer of k blocks of n units, read k - 1 steps later.

    `flatten` makes it. Outputs and states are the stack's, in its shapes. ``weight_hh_l0`` has the
    stack's recurrent weights on its diagonal of blocks and its input weights below. All other blocks
    are zero, and so are their gradients, unless `connections` adds them.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool = True,
        batch_first: bool = False,
        device=None,
        dtype=None,
        *,
        connections: str = "stacked",
        delay: int | None = None,
        padding: str = "null",
    ):
        units, like = num_layers * hidden_size, dict(device=device, dtype=dtype)
        super().__init__(mode, input_size, units, 1, bias, batch_first, **like)
        if mode == "GRU":
            self.weight_hu_l0 = nn.Parameter(torch.zeros(units, units, **like))
        self.hidden_size, self.num_layers, self.connections = hidden_size, num_layers, connections
        self._set_delay(num_layers - 1 if delay is None else delay, padding)
        shape_of(self._config())  # raises where connections make no sense
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()

    def _config(self) -> Config:
        return super()._config()._replace(connections=self.connections)

    def extra_repr(self) -> str:
        sizes = f"{self.mode}, {self.input_size}, {self.num_layers} x {self.hidden_size}"
        bias = "" if self.bias else ", bias=False"
        first = ", batch_first=True" if self.batch_first else ""
        connections = f", connections={self.connections}"
        return f"{sizes}{bias}{first}{connections}, delay={self.delay}, padding={self.padding}"


def flatten(module: nn.RNNBase, connections: str = "stacked") -> Flattened:
    """The stack `module` as one layer whose outputs come k - 1 steps later: the same outputs, last
    states and gradients (Theorem 1 of the paper; docs/FLATTENING.md).

    `connections` are those between blocks that training may use: "stacked", which leaves it a stack,
    "lower", "upper", "all", or a list of pairs such as "0-0,1-0,1-1".

    >>> import torch, drnn.torch
    >>> stack = torch.nn.LSTM(3, 8, num_layers=2)
    >>> drnn.torch.flatten(stack)
    Flattened(LSTM, 3, 2 x 8, connections=stacked, delay=1, padding=null)
    """
    if not isinstance(module, nn.RNNBase) or isinstance(module, Flattened):
        raise TypeError(f"flatten needs an LSTM, GRU or RNN, got {type(module).__name__}")
    if module.bidirectional or module.proj_size:
        raise ValueError("a bidirectional stack or one with proj_size cannot be flattened")
    if module.dropout and module.num_layers > 1:
        raise ValueError("dropout between layers has no counterpart in one layer; set dropout=0")
    k, like = module.num_layers, module.weight_ih_l0
    delay, padding = getattr(module, "delay", 0), getattr(module, "padding", "null")
    flat = Flattened(
        *(module.mode, module.input_size, module.hidden_size, k, module.bias, module.batch_first),
        *(like.device, like.dtype),
        connections=connections,
        delay=delay + k - 1,
        padding=padding,
    )
    stack = dict(module.named_parameters())
    with torch.no_grad():
        for block, name, gates in _places(flat._config(), dict(flat.named_parameters())):
            block.copy_(_by_gate(stack[name], flat)[gates].view_as(block))
    return flat.train(module.training)


def unflatten(flat: Flattened) -> LSTM | GRU | RNN:
    """The stack that `flat` is. A ValueError names a block that a stack does not have."""
    if not isinstance(flat, Flattened):
        raise TypeError(f"unflatten needs what flatten returns, got {type(flat).__name__}")
    k, like = flat.num_layers, flat.weight_ih_l0
    options = dict(bias=flat.bias, batch_first=flat.batch_first)
    options.update(device=like.device, dtype=like.dtype)
    options.update(delay=flat.delay - (k - 1), padding=flat.padding)
    if flat.mode.startswith("RNN"):
        options["nonlinearity"] = flat.mode[len("RNN_") :].lower()
    module = _STACKS[flat.mode](flat.input_size, flat.hidden_size, k, **options)
    stack = dict(module.named_parameters())
    rest = {name: parameter.detach().clone() for name, parameter in flat.named_parameters()}
    with torch.no_grad():
        for block, name, gates in _places(flat._config(), rest):
            _by_gate(stack[name], flat)[gates].copy_(
                block.reshape(len(block), flat.hidden_size, -1)
            )
            block.zero_()
    for name, parameter in rest.items():
        if parameter.any():
            _refuse(flat, name, parameter)
    return module.train(flat.training)


def _by_gate(parameter: Tensor, flat: Flattened) -> Tensor:
    """A parameter of the stack as (gates, n, width)."""
    return parameter.view(flat._config().gates, flat.hidden_size, -1)


def _places(config: Config, flat: dict[str, Tensor]):
    """Where parameters of the stack are in those of the flattened layer: a view (gates, n, width) or,
    of biases, (gates, n), the name in the stack, and which of its gates."""
    gates, k, n = config.gates, config.num_layers, config.hidden_size
    every = slice(None)
    recurrent = flat["weight_hh_l0"].view(gates, k, n, k, n)
    yield flat["weight_ih_l0"].view(gates, k, n, -1)[:, 0], "weight_ih_l0", every
    for i in range(k):
        yield recurrent[:, i, :, i], f"weight_hh_l{i}", every
        if (
            i > 0 and config.mode == "GRU"
        ):  # the candidate reads the layer below past its reset gate
            ungated = flat["weight_hu_l0"].view(1, k, n, k, n)
            yield recurrent[:2, i, :, i - 1], f"weight_ih_l{i}", slice(2)
            yield ungated[:, i, :, i - 1], f"weight_ih_l{i}", slice(2, 3)
        elif i > 0:
            yield recurrent[:, i, :, i - 1], f"weight_ih_l{i}", every
        for bias in ("bias_ih", "bias_hh"):
            if f"{bias}_l0" in flat:
                yield flat[f"{bias}_l0"].view(gates, k, n)[:, i], f"{bias}_l{i}", every


def _refuse(flat: Flattened, name: str, parameter: Tensor) -> None:
    """What is not zero lies outside the structure of a stack."""
    n = flat.hidden_size
    row, *column = parameter.nonzero()[0].tolist()
    to = row % (flat.num_layers * n) // n
    if name == "weight_ih_l0":
        raise ValueError(f"{name}: block {to} reads the input; in a stack only block 0 does")
    raise ValueError(f"{name}: block {to} reads block {column[0] // n}; in a stack it does not")
