"""torch's own layer, made safe: the public door to `regard.attention.compat`."""

from regard.attention.compat import MultiheadAttention, replace

__all__ = ["MultiheadAttention", "replace"]
