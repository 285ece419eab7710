"""A drop-in replacement for `nn.MultiheadAttention` that returns no NaN, and `replace` to use it in a model."""

from regard.attention.torch_compat import MultiheadAttention, replace

__all__ = ["MultiheadAttention", "replace"]
