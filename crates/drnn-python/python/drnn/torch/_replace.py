"""torch.nn's recurrent modules of a model, exchanged for drnn's."""

from __future__ import annotations

from torch import nn
from torch.nn.utils import parametrize

from ._modules import GRU, LSTM, RNN

_BY_CLASS = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}


def replace(module: nn.Module) -> nn.Module:
    """Exchanges every ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` in `module` for drnn's, in place.

    The new modules share parameters, hooks and the training flag with the old ones, so an optimizer
    that was made before keeps working. Classes derived from torch.nn's are left alone, because they
    may compute something else. Returns `module`, or its replacement where it is one of the three.

    >>> import torch, drnn.torch
    >>> model = torch.nn.Sequential(torch.nn.Embedding(100, 8), torch.nn.LSTM(8, 16))
    >>> drnn.torch.replace(model)[1].__class__.__module__.startswith("drnn.torch")
    True
    """
    replaced: dict[int, nn.Module] = {}
    new = _replacement(module, replaced)
    for parent in list(module.modules()):
        for name, child in parent._modules.items():
            if child is not None:
                parent._modules[name] = _replacement(child, replaced)
    return new


def _replacement(module: nn.Module, replaced: dict[int, nn.Module]) -> nn.Module:
    kind = _drnn_class(module)
    if kind is None:
        return module
    if id(module) not in replaced:
        new = kind.__new__(kind)
        new.__dict__.update(module.__dict__)
        new.__dict__.update(delay=0, padding="null")
        replaced[id(module)] = new
    return replaced[id(module)]


def _drnn_class(module: nn.Module) -> type | None:
    own = type(module)
    if own in _BY_CLASS:
        return _BY_CLASS[own]
    # A module with parametrizations has a class of its own, which holds their properties.
    if parametrize.is_parametrized(module) and own.__bases__[0] in _BY_CLASS:
        skip = ("__dict__", "__weakref__")
        members = {name: value for name, value in vars(own).items() if name not in skip}
        return type(own.__name__, (_BY_CLASS[own.__bases__[0]],), members)
    return None
