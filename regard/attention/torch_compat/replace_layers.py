"""Replacement of torch's attention layers in a model by those of regard."""

from typing import TypeVar

from torch import nn

from regard.attention.torch_compat.multihead_attention import MultiheadAttention, TorchAttention, mark_layer

Model = TypeVar("Model", bound=nn.Module)


def replace(model: Model) -> Model:
    """Replace every `nn.MultiheadAttention` of a model by the one of `regard.compat`, in place; return the model.

    Only the class of the modules changes. Parameters, hooks, mode and position in the model stay the same, so
    optimizers and shared layers remain valid and the state dict does not change. It works for a single layer,
    and inside `nn.Transformer` and its parts.

    Subclasses of `nn.MultiheadAttention` are not replaced: they may have their own `forward`.

    >>> model = replace(nn.TransformerEncoderLayer(8, 2, batch_first=True))
    >>> type(model.self_attn) is MultiheadAttention
    True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"replace takes an nn.Module, got {type(model).__name__}")
    for module in model.modules():
        if type(module) is TorchAttention:
            module.__class__ = MultiheadAttention
            mark_layer(module)
    return model
