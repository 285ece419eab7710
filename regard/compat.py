"""torch's own layer, made safe: the public door to `regard.attention.torch_compat`."""

from regard.attention.torch_compat import MultiheadAttention, replace

__all__ = ["MultiheadAttention", "replace"]
