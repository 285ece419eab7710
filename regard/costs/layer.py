"""One call of an attention layer, described by the numbers that determine its cost."""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from regard.attention import Mask

Kind = Literal["multihead", "single", "bare", "spatial", "torch"]


@dataclass(frozen=True)
class Layer:
    """Sizes and options of one call.

    batch, queries, keys            B, L and S
    d_model, heads, kv_heads, d_k   D, H, H_kv and the width of a head
    dtype                           type of the numbers
    bias                            whether the projections have a bias

    projected_keys  number of keys that this call projects: S; with a cache the new keys; 0 if projected before the call
    key_dim         input width of the key projection; value_dim that of the value projection
    parameters      number of learned numbers
    name            path of the layer in its model
    kind            `nn.MultiHeadAttention` of regard or its torch-compatible version, `SelfAttention`,
                    `BareSelfAttention`, `SpatialAttention`, or torch's `nn.MultiheadAttention`
    packed          whether one product computes q, k and v
    output          whether there is an output projection
    mask            which pairs are visible; None for all
    alibi           the ALiBi bias, if there is one
    materialised    whether the L×S weights are stored, for every head or (mean_weights) only their mean
    by_regard       whether regard's kernels run, which skip hidden blocks of pairs; those of torch compute all pairs
    mask_tensor     numbers in tensors that are added to the scores: a boolean mask, or a bias
    cache_tokens    capacity of the KV cache in tokens; None without one
    returns_weights whether the call returns the weights
    native          whether torch's single operator for the whole layer runs, in eval mode without gradients
    sinks           whether there are attention sinks, so that the log-sum-exp has a gradient
    contiguous      whether the input has the memory order that the projection needs
    copies_context  whether the context is copied when the heads are merged
    residual        whether the input is added to the output
    extra_bytes     bytes of further tensors that exist beside q, k and v (of rotary positions, of norms)

    >>> import regard
    >>> layer = regard.cost(d_model=512, heads=8, seq=2048).estimates[0].layers[0]
    >>> layer.heads, layer.d_k, layer.keys
    (8, 64, 2048)
    """

    batch: int
    queries: int
    keys: int
    d_model: int
    heads: int
    kv_heads: int
    d_k: int
    projected_keys: int
    key_dim: int
    value_dim: int
    parameters: int = 0
    dtype: torch.dtype = torch.float32
    name: str = ""
    kind: Kind = "multihead"
    packed: bool = True
    bias: bool = True
    output: bool = True
    mask: Mask | None = None
    alibi: Any = None
    materialised: bool = False
    mean_weights: bool = False
    by_regard: bool = True
    mask_tensor: int = 0
    cache_tokens: int | None = None
    returns_weights: bool = False
    native: bool = False
    sinks: bool = False
    contiguous: bool = True
    copies_context: bool = False
    residual: bool = False
    extra_bytes: int = 0

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return self.dtype.itemsize

    @property
    def softmax_itemsize(self) -> int:
        """Bytes of one number in the softmax, which runs in float32 at least."""
        return max(4, self.itemsize)

    @property
    def lse_bytes(self) -> int:
        """Bytes of the log-sum-exp of every row."""
        return self.batch * self.heads * self.queries * self.softmax_itemsize
