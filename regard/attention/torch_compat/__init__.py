"""A drop-in replacement for `nn.MultiheadAttention` that returns no NaN if all keys of a query are masked.

`multihead_attention` implements the layer, `torch_masks` converts torch's masks to those of regard, `replace_layers`
exchanges the layers of a model.
"""

from regard.attention.torch_compat.multihead_attention import MultiheadAttention
from regard.attention.torch_compat.replace_layers import replace

__all__ = ["MultiheadAttention", "replace"]
