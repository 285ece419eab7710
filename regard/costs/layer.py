"""One call of one attention layer, as the numbers that its cost follows from."""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from regard.attention import Mask, check_groups

Kind = Literal["multihead", "single", "bare", "spatial", "torch"]


@dataclass(frozen=True)
class Layer:
    """B batch · L queries · S keys · D model width · H heads · H_kv key/value heads · d_k width of a head.

    name            where it stands in a model
    kind            whose layer it is: `nn.MultiHeadAttention` of regard, one head, one bare head, over a feature
                    map, or torch's `nn.MultiheadAttention`
    projected       keys that are projected in this call: S, the new ones with a cache, 0 for those done before
    key_dim         width of what keys are projected from, and value_dim of what values are
    packed          whether q, k and v come from one product
    out             whether there is an output projection
    parameters      how many numbers are learned
    mask            which pairs are visible; None for all
    materialised    whether the L×S weights are written out, for every head or (mean) only their mean kept
    ours            whether our tiles compute it, which skip what a mask hides; torch's kernel computes all pairs
    added           numbers that are added to the scores, as a tensor: a boolean mask written out, or a bias
    returned        whether the weights are returned as well
    native          whether torch's operator for all of the layer runs, as in eval without gradients
    sinks           whether the log-sum-exp takes part, and so has a gradient
    contiguous      whether the input lies in the order that the projection wants
    turned          whether the context is merged in another order than it lies in, and so copied
    residual        whether the input is added to the output
    cache           tokens that the KV cache has room for; None without one
    extra           bytes that other steps hold beside q, k and v (copies that rotary positions, norms, ... make)
    """

    batch: int
    queries: int
    keys: int
    d_model: int
    heads: int
    kv_heads: int
    d_k: int
    projected: int
    key_dim: int
    value_dim: int
    parameters: int
    dtype: torch.dtype = torch.float32
    name: str = ""
    kind: Kind = "multihead"
    packed: bool = True
    bias: bool = True
    out: bool = True
    mask: Mask | None = None
    alibi: Any = None
    materialised: bool = False
    mean: bool = False
    ours: bool = True
    added: int = 0
    cache: int | None = None
    returned: bool = False
    native: bool = False
    sinks: bool = False
    contiguous: bool = True
    turned: bool = False
    residual: bool = False
    extra: int = 0

    @property
    def size(self) -> int:
        """Bytes of one number."""
        return self.dtype.itemsize

    @property
    def wide(self) -> int:
        """Bytes of one number in which rows are normalised: float32, or float64 where all is."""
        return max(4, self.size)


def plain_layer(
    seq: int,
    *,
    d_model: int,
    heads: int,
    batch: int,
    kv_heads: int | None,
    d_k: int | None,
    queries: int | None,
    mask: Mask | None,
    dtype: torch.dtype,
    bias: bool,
    cached: bool,
    materialised: bool,
) -> Layer:
    """What `regard.nn.MultiHeadAttention` computes for S = `seq` keys."""
    from regard.attention import check_heads

    d_k = check_heads(d_model, heads) if d_k is None else d_k
    kv_heads = heads if kv_heads is None else kv_heads
    check_groups(heads, kv_heads)
    new = (1 if cached else seq) if queries is None else queries
    if cached and new > seq:
        raise ValueError(f"with a cache the {new} queries are the last of the keys, of which there are {seq}")
    if mask is not None:
        mask.check(batch, heads, new, seq)
    q, kv = heads * d_k, kv_heads * d_k
    learned = (d_model + bias) * (q + 2 * kv) + (q + bias) * d_model
    return Layer(
        batch=batch,
        queries=new,
        keys=seq,
        d_model=d_model,
        heads=heads,
        kv_heads=kv_heads,
        d_k=d_k,
        projected=new if cached else seq,
        key_dim=d_model,
        value_dim=d_model,
        parameters=learned,
        dtype=dtype,
        packed=cached or new == seq,
        bias=bias,
        mask=mask,
        materialised=materialised,
        cache=seq if cached else None,
    )
