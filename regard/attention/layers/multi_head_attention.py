"""Multi-head attention as a layer: project, split into heads, attend, merge, project.

    [Q K V] = x W_qkvᵀ + b_qkv                       one product for all three
    head_h  = softmax(Q_h K_gᵀ / √d_k) V_g           head h uses key/value head g = h // (H / H_kv)
    out     = [head_1 … head_H] W_outᵀ + b_out

    B batch · L queries · S keys · D model width · H heads · H_kv key/value heads · d_k width of a head

    H_kv = H, multi-head          H_kv = 2, grouped             H_kv = 1, multi-query
    q q q q q q q q               q q q q q q q q               q q q q q q q q
    │ │ │ │ │ │ │ │               └─┴─┼─┘ └─┴─┼─┘               └─┴─┴─┼─┴─┴─┴─┘
    k k k k k k k k                   k       k                       k

The rows of W_qkv are the heads of q, then those of k, then those of v (for H_kv = H, as in `in_proj_weight` of
nn.MultiheadAttention). q, k and v are views of one product, and the merged heads are a view of the output of the
kernel: nothing is copied between the two projections.
"""

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.types import Device

from regard.attention.argument_checks import check_dropout
from regard.attention.attend_function import attend
from regard.attention.integer_arguments import check_integer
from regard.attention.layers.head_count import check_groups, fit_heads
from regard.attention.layers.kv_cache import Cache
from regard.attention.layers.sinks import attend_with_sinks
from regard.attention.layers.torch_conversion import build_torch_layer, options_of_torch, weights_of_torch
from regard.attention.masks import Mask, as_mask, causal
from regard.attention.positions.alibi import Alibi
from regard.attention.positions.position_arguments import Positions, check_vectors
from regard.attention.positions.rotary import Rotary

MaskLike = Mask | Bool[Tensor, "..."]
CAUSAL = causal()  # one object for all layers and calls
Queries = Float[Tensor, "*b heads l d_k"]
Keys = Float[Tensor, "*b kv_heads s d_k"]


class Projected(NamedTuple):
    """Keys and values of a context, (..., H_kv, S, d_k) each, as returned by `project_context`."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """Multi-head attention: self or cross, grouped heads, positions, sinks, KV cache.

    d_model         D, the width of x and of the output
    heads           H, the number of query heads
    kv_heads        H_kv, the number of key/value heads; H by default, fewer for grouped heads
    d_k             width of a head; D / H by default
    context_dim     width of the context if it is not D; the layer is then for cross-attention only
    bias            whether the q, k and v projections have a bias
    out_bias        whether the output projection has a bias; as `bias` by default
    dropout         probability with which a weight is dropped in training; 0 in evaluation
    scale           factor of the scores; 1/√d_k by default
    causal          apply a causal mask in every call, with or without a cache
    rotary          True or a `Rotary(d_k)`: rotate queries and keys by their positions
    alibi           reduce scores in proportion to distance, with one slope per head (`Alibi`)
    qk_norm         RMS-normalise every query and key over d_k before the dot product, with learned gains
    sinks           one learned logit per head in the denominator of softmax (as in gpt-oss): the weights of a query
                    then sum to less than 1
    adjust_heads    use the nearest number of heads that divides D, with a warning, instead of raising an error
    device, dtype   of the parameters, as in every layer of torch

    The matrices of q, k, v and the output are initialised Xavier-uniform, each separately; biases and sinks with zeros.
    Rotary, ALiBi and causal refer to positions in one sequence: a layer with any of them accepts no context.

    >>> layer = MultiHeadAttention(64, 8, kv_heads=2)
    >>> x = torch.randn(2, 10, 64)
    >>> layer(x).shape
    torch.Size([2, 10, 64])
    >>> output, weights = layer(x, weights=True)
    >>> weights.shape                                          # one matrix per head
    torch.Size([2, 8, 10, 10])
    >>> layer(x, torch.randn(2, 7, 64)).shape                  # cross-attention
    torch.Size([2, 10, 64])

    Decoding with a cache equals the causal forward:

    >>> from regard.attention.layers.kv_cache import GrowingCache
    >>> layer, cache = MultiHeadAttention(64, 8, causal=True, rotary=True), GrowingCache()
    >>> with torch.no_grad():
    ...     steps = [layer(x[:, n : n + 1], cache=cache) for n in range(10)]
    >>> torch.allclose(torch.cat(steps, 1), layer(x), atol=1e-5)
    True
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        kv_heads: int | None = None,
        *,
        d_k: int | None = None,
        context_dim: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
        causal: bool = False,
        rotary: bool | Rotary | None = None,
        alibi: bool = False,
        qk_norm: bool = False,
        sinks: bool = False,
        adjust_heads: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.d_model = check_integer("MultiHeadAttention(d_model)", d_model, 1, "it is the width of x")
        if d_k is None:
            heads = fit_heads(d_model, heads, adjust_heads)
            d_k = d_model // heads
        self.heads, self.d_k = heads, check_integer("MultiHeadAttention(d_k)", d_k, 1, "it is the width of a head")
        self.kv_heads = heads if kv_heads is None else kv_heads
        check_groups(self.heads, self.kv_heads)
        check_dropout(dropout)
        self.dropout, self.scale, self.causal = dropout, scale, causal
        context_dim = d_model if context_dim is None else context_dim
        self.context_dim = check_integer("context_dim", context_dim, 1, "it is a width")
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        q, k, v = self._widths = (self.heads * self.d_k, self.kv_heads * self.d_k, self.kv_heads * self.d_k)
        if self.context_dim == d_model:
            self.qkv = nn.Linear(d_model, q + k + v, bias=bias, **factory)
        else:
            self.q = nn.Linear(d_model, q, bias=bias, **factory)
            self.kv = nn.Linear(self.context_dim, k + v, bias=bias, **factory)
        self.out = nn.Linear(q, d_model, bias=bias if out_bias is None else out_bias, **factory)
        self.q_norm = nn.RMSNorm(self.d_k, eps=1e-6, **factory) if qk_norm else None
        self.k_norm = nn.RMSNorm(self.d_k, eps=1e-6, **factory) if qk_norm else None
        self.rotary = self._build_rotary(rotary)
        self.alibi = Alibi(self.heads) if alibi else None
        self.sinks = nn.Parameter(torch.empty(self.heads, **factory)) if sinks else None
        options = {"causal": causal, "rotary": self.rotary is not None, "alibi": alibi}
        self._position_options = [name for name, enabled in options.items() if enabled]
        if self._position_options and self.context_dim != d_model:
            raise ValueError(self._no_context())
        self.reset_parameters()

    def _build_rotary(self, rotary: bool | Rotary | None) -> Rotary | None:
        if isinstance(rotary, Rotary):
            if rotary.d_k != self.d_k:
                raise ValueError(f"rotary must have the heads' d_k={self.d_k}, got {rotary.d_k}; use rotary=True")
            return rotary
        return Rotary(self.d_k) if rotary else None

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> "MultiHeadAttention":
        """Return a layer with a copy of the weights of torch's layer, and the same outputs.

        The result takes (..., L, D), whatever `batch_first` is, one context for keys and values, and masks in which
        True means visible. `add_bias_kv`, `add_zero_attn` and kdim ≠ vdim have no counterpart and raise an error.

        >>> theirs = nn.MultiheadAttention(16, 2, batch_first=True)
        >>> ours, x = MultiHeadAttention.from_torch(theirs), torch.randn(2, 5, 16)
        >>> torch.allclose(ours(x), theirs(x, x, x)[0], atol=1e-6)
        True
        """
        ours = cls(**options_of_torch(layer))
        ours.load_state_dict(weights_of_torch(layer))
        return ours.train(layer.training)

    def to_torch(self) -> nn.MultiheadAttention:
        """Return torch's layer, with `batch_first=True`, a copy of the weights and the same outputs.

        Raises an error for options that torch's layer does not have: grouped heads, causal, rotary, alibi, qk_norm,
        sinks, a scale, or heads whose widths do not add up to D.

        >>> layer, x = MultiHeadAttention(16, 2), torch.randn(2, 5, 16)
        >>> torch.allclose(layer.to_torch()(x, x, x)[0], layer(x), atol=1e-6)
        True
        """
        options: dict[str, bool] = {
            f"kv_heads={self.kv_heads}": self.kv_heads != self.heads,
            f"d_k={self.d_k}": self.heads * self.d_k != self.d_model,
            f"scale={self.scale}": self.scale is not None and self.scale != self.d_k**-0.5,
            **dict.fromkeys(self._position_options, True),
            "qk_norm": self.q_norm is not None,
            "sinks": self.sinks is not None,
        }
        if extra := [name for name, used in options.items() if used]:
            raise ValueError(
                f"nn.MultiheadAttention has no {', '.join(extra)}, which this layer uses; convert a layer without it"
            )
        layer = build_torch_layer(self.d_model, self.heads, self.context_dim, self.dropout, self.state_dict())
        return layer.train(self.training)

    def reset_parameters(self) -> None:
        """Initialise projections Xavier-uniform, each separately; biases and sinks with zeros, gains with ones."""
        if self.context_dim == self.d_model:
            xavier_uniform_each(self.qkv, self._widths)
        else:
            xavier_uniform_each(self.q, self._widths[:1])
            xavier_uniform_each(self.kv, self._widths[1:])
        xavier_uniform_each(self.out, (self.d_model,))
        for norm in (self.q_norm, self.k_norm):
            if norm is not None:
                norm.reset_parameters()
        if self.sinks is not None:
            nn.init.zeros_(self.sinks)

    def forward(
        self,
        x: Tensor,
        context: Tensor | Projected | None = None,
        *,
        mask: MaskLike | None = None,
        cache: Cache | None = None,
        positions: Positions | None = None,
        weights: bool | Literal["mean"] = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Map x (..., L, D), and for cross-attention a context (..., S, context_dim), to (..., L, D).

        mask        a mask of `regard.masks` or a boolean tensor that broadcasts to (..., H, L, S); **True = visible**
        cache       a cache of `regard.nn`: x holds the tokens after those in it, and S counts both. Several new tokens
                    at once require `causal=True` in the layer or a mask here: without either, the first of them would
                    see the last. A SlidingCache hides the tokens outside its window
        positions   for rotary: the position of the first token, or of each, (L,) or (..., L); by default those after
                    the tokens in the cache, or from 0 on
        weights     True: also return the weights (..., H, L, S); "mean": their mean over heads (..., L, S)
        """
        check_vectors("MultiHeadAttention", x, self.d_model)
        if context is None or context is x:
            q, k, v, mask = self._project_self(x, mask, cache, positions)
        else:
            q, k, v = self._project_cross(x, context, cache, positions)
        out, maps = self._attend(q, k, v, mask, weights)
        merged = out.transpose(-3, -2).flatten(-2)  # (..., L, H·d_k), a view of the output of the kernel
        result: Tensor = self.out(merged)  # (..., L, D)
        return result if maps is None else (result, maps)

    def project_context(self, context: Tensor) -> Projected:
        """Return the keys and values of a context (..., S, context_dim), to compute them once for many calls.

        >>> layer, context = MultiHeadAttention(16, 2), torch.randn(1, 5, 16)
        >>> projected = layer.project_context(context)
        >>> x = torch.randn(1, 3, 16)
        >>> bool((layer(x, projected) == layer(x, context)).all())
        True
        """
        check_vectors("the context of MultiHeadAttention", context, self.context_dim)
        if self.context_dim == self.d_model:
            both = _apply_rows(self.qkv, slice(self._widths[0], None), context)  # (..., S, 2·H_kv·d_k)
        else:
            both = self.kv(context)
        k, v = (part.unflatten(-1, (-1, self.d_k)).transpose(-3, -2) for part in both.chunk(2, -1))
        return Projected(k if self.k_norm is None else _normalize(self.k_norm, k), v)

    def _project_self(
        self, x: Float[Tensor, "*b l d"], mask: MaskLike | None, cache: Cache | None, positions: Positions | None
    ) -> tuple[Queries, Keys, Keys, MaskLike | None]:
        """Return queries, keys, values and mask of self-attention."""
        if self.context_dim != self.d_model:
            raise ValueError(
                f"this layer attends to a context of width {self.context_dim}, and x has width "
                f"{self.d_model}; call layer(x, context)"
            )
        # One split instead of three slices: its gradient is one concatenation, not three tensors padded with zeros.
        parts = self.qkv(x).split(self._widths, -1)  # (..., L, H·d_k) and twice (..., L, H_kv·d_k)
        q, k, v = (part.unflatten(-1, (-1, self.d_k)).transpose(-3, -2) for part in parts)  # (..., H, L, d_k)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = _normalize(self.q_norm, q), _normalize(self.k_norm, k)
        if self.rotary is not None:
            first = 0 if cache is None else cache.length
            q, k = self.rotary(q, k, first if positions is None else positions)
        elif positions is not None:
            raise ValueError("positions are for rotary, which this layer does not have; build it with rotary=True")
        if cache is not None:
            k, v, mask = self._append(k, v, mask, cache)
        if self.causal and q.shape[-2] > 1:
            mask = CAUSAL if mask is None else CAUSAL & as_mask(mask)
        return q, k, v, mask

    def _project_cross(
        self, x: Float[Tensor, "*b l d"], context: Tensor | Projected, cache: Cache | None, positions: Positions | None
    ) -> tuple[Queries, Keys, Keys]:
        """Return the queries of x, and the keys and values of the context."""
        if isinstance(context, Mask) or (isinstance(context, Tensor) and context.dtype == torch.bool):
            raise TypeError("the second argument is the context of cross-attention; pass a mask as mask=…")
        if self._position_options:
            raise ValueError(self._no_context())
        if cache is not None:
            raise ValueError(
                "a cache is for self-attention, and a context does not grow: compute its keys and values once "
                "with project_context(context), and pass the result as the context"
            )
        if positions is not None:
            raise ValueError("positions are for rotary, and a layer with rotary accepts no context; leave them out")
        packed = self.context_dim == self.d_model
        q = _apply_rows(self.qkv, slice(self._widths[0]), x) if packed else self.q(x)
        q = q.unflatten(-1, (-1, self.d_k)).transpose(-3, -2)  # (..., H, L, d_k)
        if self.q_norm is not None:
            q = _normalize(self.q_norm, q)
        return q, *(context if isinstance(context, Projected) else self.project_context(context))

    def _append(
        self, k: Keys, v: Keys, mask: MaskLike | None, cache: Cache
    ) -> tuple[Float[Tensor, "*b kv_heads kept d_k"], Float[Tensor, "*b kv_heads kept d_k"], MaskLike | None]:
        """Return the keys and values of the tokens in the cache and the new ones, and the mask over them."""
        if k.dim() != 4:
            raise ValueError(f"with a cache x must be (B, L, D), got {k.dim() - 1} dimensions; write x[None]")
        new = k.shape[-2]
        if new > 1 and not self.causal and mask is None:
            raise ValueError(
                f"{new} new tokens with a cache and no mask would see later tokens; build the layer "
                "with causal=True, or pass mask=masks.causal()"
            )
        k, v = cache.append(k, v)
        if new > 1 and cache.rule is not None:
            mask = cache.rule if mask is None else cache.rule & as_mask(mask)
        return k, v, mask

    def _attend(
        self, q: Queries, k: Keys, v: Keys, mask: MaskLike | None, weights: bool | Literal["mean"]
    ) -> tuple[Queries, Float[Tensor, "..."] | None]:
        dropout = self.dropout if self.training else 0.0
        options: dict[str, Any] = {"bias": self.alibi, "scale": self.scale, "dropout": dropout, "weights": weights}
        if self.sinks is None:
            result = attend(q, k, v, mask, **options)
        else:
            result = attend_with_sinks(q, k, v, self.sinks, mask, **options)
        return result if isinstance(result, tuple) else (result, None)

    def _no_context(self) -> str:
        return (
            f"this layer is built with {', '.join(self._position_options)}, which use positions in one sequence; "
            "a context is another sequence: build a layer for cross-attention without these options"
        )

    def extra_repr(self) -> str:
        sizes = [f"d_model={self.d_model}, heads={self.heads}, kv_heads={self.kv_heads}, d_k={self.d_k}"]
        context_dim = self.context_dim if self.context_dim != self.d_model else None
        options: dict[str, Any] = {"context_dim": context_dim, "dropout": self.dropout, "scale": self.scale}
        options |= {"causal": self.causal, "alibi": self.alibi is not None, "sinks": self.sinks is not None}
        return ", ".join(sizes + [f"{name}={value}" for name, value in options.items() if value])


def _normalize(norm: nn.RMSNorm, x: Float[Tensor, "*b heads n d_k"]) -> Float[Tensor, "*b heads n d_k"]:
    """Return the RMS norm of x, computed in the dtype of the learned gain: under autocast x has half precision."""
    normalized: Tensor = norm(x.to(norm.weight.dtype))
    return normalized.to(x.dtype)


def _apply_rows(projection: nn.Linear, rows: slice, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n width"]:
    """Apply a part of a packed projection to x: only `rows` of its weight and bias."""
    return F.linear(x, projection.weight[rows], None if projection.bias is None else projection.bias[rows])


def xavier_uniform_each(projection: nn.Linear | nn.Conv2d, sizes: tuple[int, ...]) -> None:
    """Initialise each part of a packed projection as a separate matrix: U(±√(6 / (inputs + outputs)))."""
    with torch.no_grad():
        for part in projection.weight.split(sizes):
            bound = (6 / (part.shape[1] + part.shape[0])) ** 0.5
            part.uniform_(-bound, bound)
        if projection.bias is not None:
            projection.bias.zero_()
