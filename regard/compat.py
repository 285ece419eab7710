"""`nn.MultiheadAttention` without NaN for queries whose keys are all masked, and `replace` to put it into a model."""

from regard.attention.torch_compat import MultiheadAttention, replace

__all__ = ["MultiheadAttention", "replace"]
