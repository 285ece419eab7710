"""Putting our layer into a model that has torch's."""

from typing import TypeVar

from torch import nn

from regard.attention.torch_compat.layer import MultiheadAttention, Torchs, mark

Model = TypeVar("Model", bound=nn.Module)


def replace(model: Model) -> Model:
    """Make every `nn.MultiheadAttention` inside a model ours, in place; returns the model.

    The modules themselves stay, with their parameters, hooks, mode and place in the model; only their class
    changes. So optimizers go on, layers that are shared stay shared, and the state dict is what it was. It
    works on a single layer, and inside `nn.Transformer` and its parts.

    Subclasses of `nn.MultiheadAttention` are left alone: they may have a `forward` of their own.

    >>> model = replace(nn.TransformerEncoderLayer(8, 2, batch_first=True))
    >>> type(model.self_attn) is MultiheadAttention
    True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"replace takes an nn.Module, got {type(model).__name__}")
    for module in model.modules():
        if type(module) is Torchs:
            module.__class__ = MultiheadAttention
            mark(module)
    return model
