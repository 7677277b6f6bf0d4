"""Many networks of one shape, trained at once."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ._replace import replace


class Ensemble(nn.Module):
    """E modules of one structure, computed together: ``y[e] = modules[e](x)``.

    The modules may contain anything that ``torch.vmap`` can map; their LSTMs, GRUs and RNNs run on
    drnn's kernels, which compute all E side by side. Parameters and buffers are copied and stacked:
    those of the ensemble have an axis of E in front, under the names that they have in `modules`.

    A loss that sums over the networks gives each the gradient that it would have alone::

        ensemble = drnn.torch.Ensemble([MyModel() for _ in range(8)])
        optimizer = torch.optim.Adam(ensemble.parameters())
        output = ensemble(x)                          # (8, ..), all on the same x
        loss = (output - target).square().flatten(1).mean(1).sum()
        loss.backward()
        ensemble.clip_grad_norm_(1.0)                 # of each network, not of all together
        optimizer.step()
        best = ensemble[3]                            # a module of its own

    >>> import torch, drnn.torch
    >>> ensemble = drnn.torch.Ensemble([torch.nn.LSTM(3, 16) for _ in range(4)])
    >>> output, (h, c) = ensemble(torch.randn(20, 5, 3))
    >>> output.shape, h.shape
    (torch.Size([4, 20, 5, 16]), torch.Size([4, 1, 5, 16]))
    """

    def __init__(self, modules: Sequence[nn.Module]):
        super().__init__()
        modules = list(modules)
        if not modules:
            raise ValueError("an ensemble needs at least one module")
        if any(module.training != modules[0].training for module in modules):
            raise ValueError("all modules of an ensemble must be in the same mode, train or eval")
        parameters, buffers = _stacked(modules)
        self.size = len(modules)
        self.networks = replace(copy.deepcopy(modules[0]))
        self._assign(self.networks, parameters, buffers)

    @staticmethod
    def _assign(module: nn.Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor]):
        for name, tensor in parameters.items():
            owner, _, own = name.rpartition(".")
            parameter = nn.Parameter(tensor.detach(), tensor.requires_grad)
            setattr(module.get_submodule(owner), own, parameter)
        for name, tensor in buffers.items():
            owner, _, own = name.rpartition(".")
            module.get_submodule(owner)._buffers[own] = tensor

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> nn.Module:
        """A copy of one network, with parameters of its own."""
        if not -self.size <= index < self.size:
            raise IndexError(f"network {index} of {self.size}")
        module = copy.deepcopy(self.networks)
        parameters, buffers = (
            {
                name: tensor[index].detach().clone().requires_grad_(tensor.requires_grad)
                for name, tensor in tensors
            }
            for tensors in (self.networks.named_parameters(), self.networks.named_buffers())
        )
        self._assign(module, parameters, buffers)
        return module

    def forward(self, *args, in_dims=None):
        """Results of all networks, with an axis of E in front.

        Arguments:
            args: arguments of the modules. Sequences are packed inside of the modules, if at all.
            in_dims: which of them every network has its own of, as for ``torch.vmap``: one entry
                for each argument, the axis of the networks, or None for what they share. None
                alone: all share everything.
        """
        if any(isinstance(argument, PackedSequence) for argument in args):
            raise TypeError("torch.vmap cannot map a PackedSequence; pack inside of the modules")
        parameters = dict(self.networks.named_parameters())
        buffers = dict(self.networks.named_buffers())
        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)

        def network(parameters, buffers, *args):
            return torch.func.functional_call(self.networks, (parameters, buffers), args)

        mapped = torch.vmap(network, in_dims=(0, 0, *dims), randomness="different")
        return mapped(parameters, buffers, *args)

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Clips the norm of each network's gradient; returns the E norms before."""
        gradients = [p.grad for p in self.networks.parameters() if p.grad is not None]
        if not gradients:
            return torch.zeros(self.size)
        squares = [gradient.flatten(1).square().sum(1) for gradient in gradients]
        norms = torch.stack(squares).sum(0).sqrt()
        factors = (max_norm / (norms + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factors.view(-1, *[1] * (gradient.dim() - 1)))
        return norms

    def extra_repr(self) -> str:
        return f"{self.size} networks"


def _stacked(modules: list[nn.Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers of all modules by name, stacked."""
    stacked = []
    for named in ("named_parameters", "named_buffers"):
        tensors = [dict(getattr(module, named)()) for module in modules]
        for i, other in enumerate(tensors):
            shapes = {name: tensor.shape for name, tensor in tensors[0].items()}
            if {name: tensor.shape for name, tensor in other.items()} != shapes:
                raise ValueError(f"module {i} has other parameters or buffers than module 0")
        result = {}
        for name, first in tensors[0].items():
            all_of_name = [other[name].detach() for other in tensors]
            result[name] = torch.stack(all_of_name).requires_grad_(first.requires_grad)
        stacked.append(result)
    return stacked[0], stacked[1]
