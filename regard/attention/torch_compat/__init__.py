"""torch's own attention layer, made safe; and the way to put it into a model that has torch's."""

from regard.attention.torch_compat.layer import MultiheadAttention
from regard.attention.torch_compat.replace_layers import replace

__all__ = ["MultiheadAttention", "replace"]
