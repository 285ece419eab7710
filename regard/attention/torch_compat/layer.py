"""`nn.MultiheadAttention` with everything of torch's but its NaN.

The class *is* an `nn.MultiheadAttention`: constructor, parameters, their names and initialisation, state dict
and attributes are inherited. Only `forward` is ours: the same projections, around `attend`.

    q, k, v = x W_inᵀ + b_in        context = attend(q, k, v)        y = context W_outᵀ + b_out

For an empty row the context is 0, so y = b_out; its weights are 0, and no gradient is NaN.
"""

from types import FunctionType
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend_dispatch import attend
from regard.attention.kernels.materialized import grouped_matmul, scores
from regard.attention.kernels.torch_operators import in_jit_trace
from regard.attention.torch_compat.masks import convert_torch_masks, readable, tables

Heads = Float[Tensor, "b h n d"]
Queries = Float[Tensor, "b h l d"]
Keys = Float[Tensor, "b h s d"]
Forward = TypeVar("Forward")

Torchs = nn.MultiheadAttention  # held fast, since someone may put ours in its place

SMALL = 1 << 15  # pairs of all heads; above, the fused kernel makes up for the time it takes to get to it


def _named(name: str, function: Forward) -> Forward:
    """The function under another name, since TorchScript goes by names."""
    assert isinstance(function, FunctionType)
    named = FunctionType(function.__code__, function.__globals__, name, function.__defaults__)
    named.__annotations__ = function.__annotations__
    return cast(Forward, named)


class MultiheadAttention(Torchs):
    """`nn.MultiheadAttention`, without NaN for empty rows and without losing the fused kernel to weights.

    Constructor, arguments and defaults are torch's: sequence first unless `batch_first=True`, weights given
    as the mean over heads unless `average_attn_weights=False`, after dropout in training. In `attn_mask` and
    `key_padding_mask` **True means ignore**.

    The numbers are torch's too. What differs:

    - a query with nothing to attend to gets zero weights and the output projection's bias, on every path;
    - `is_causal=True` without `attn_mask` is refused always (in eval under no_grad torch shows everything);
    - `is_causal=True` is followed where there are as many queries as keys, elsewhere `attn_mask` counts
      (without weights torch then aligns at the start, and hides what `add_bias_kv` appended);
    - masks of different types, one boolean and one float, go together without a warning;
    - `torch.jit.script` scripts torch's own layer with these parameters, NaN included.

    >>> layer = MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(1, 3, 8)
    >>> nobody = torch.ones(1, 3, dtype=torch.bool)             # every key is padding
    >>> output, weights = layer(x, x, x, key_padding_mask=nobody)
    >>> output.isnan().any().item(), weights.sum().item()
    (False, 0.0)
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(output, weights), or (output, None) if `need_weights` is False; in the shapes of torch's layer."""
        asked = (key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
        if torch.jit.is_scripting():  # type: ignore[attr-defined]
            return self._as_torch(query, key, value, *asked)
        else:  # noqa: RET505 (TorchScript reads this, and leaves out the branch that cannot be)
            return self._as_ours(query, key, value, *asked)

    _as_torch = _named("_as_torch", Torchs.forward)

    def _as_ours(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        need_weights: bool,
        attn_mask: Tensor | None,
        average_attn_weights: bool,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        asked = (key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
        if not self._fits(query, key, value, key_padding_mask, attn_mask):
            # Nested tensors; and what torch refuses, it refuses in its own words.
            return super().forward(query, key, value, *asked)
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                "`generate_square_subsequent_mask` to create this mask."
            )
        if self._small(query, key, value, key_padding_mask, attn_mask):
            found = super().forward(query, key, value, *asked)
            if not found[0].isnan().any():
                return found

        batched = query.dim() == 3
        q, k, v = (self._split(x) for x in self._project(query, key, value))
        if key_padding_mask is not None and not batched:
            key_padding_mask = key_padding_mask[None]
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.reshape(*q.shape[:2], *attn_mask.shape[1:])  # (B, H, L, S)
        keys = k.shape[-2]
        k, v, key_padding_mask, attn_mask = self._appended(k, v, key_padding_mask, attn_mask)
        is_causal = is_causal and k.shape[-2] == keys  # what was appended is visible, whatever a hint says

        weights: Tensor | None = None
        dropout = self.dropout if self.training else 0.0
        if dropout or in_jit_trace():
            seen, bias = tables(key_padding_mask, attn_mask)
            context, weights = _written_out(q, k, v, seen, bias, self.head_dim**-0.5, dropout)
            weights = weights.mean(1) if average_attn_weights else weights
        elif need_weights:
            seen, bias = tables(key_padding_mask, attn_mask)
            kind: Any = "mean" if average_attn_weights else True
            context, weights = attend(q, k, v, seen, bias=bias, weights=kind)
        else:
            mask, bias = convert_torch_masks(q, k, key_padding_mask, attn_mask, is_causal)
            context = attend(q, k, v, mask, bias=bias)

        output = self._merge(context, batched)
        if weights is None or not need_weights:
            return output, None
        return output, weights if batched else weights[0]

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "out_proj":
            mark(self)

    def _fits(self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor | None) -> bool:
        """Whether it is for us: dense tensors of the shapes and types that torch's layer documents."""
        rank = query.dim()
        if query.is_nested or key.is_nested or value.is_nested or not key.dim() == value.dim() == rank:
            return False
        if rank == 2:
            batch: tuple[int, ...] = ()
            queries, keys = query.shape[0], key.shape[0]
        elif rank == 3:
            (length, item) = (1, 0) if self.batch_first else (0, 1)
            batch = (query.shape[item],)
            queries, keys = query.shape[length], key.shape[length]
            if key.shape[item] != batch[0]:
                return False
        else:
            return False
        widths = (query.shape[-1], key.shape[-1], value.shape[-1])
        if widths != (self.embed_dim, self.kdim, self.vdim) or key.shape[:-1] != value.shape[:-1]:
            return False
        key_padding_mask, attn_mask = masks
        maps = (batch[0] if batch else 1) * self.num_heads
        if key_padding_mask is not None and key_padding_mask.shape != (*batch, keys):
            return False
        if attn_mask is not None and attn_mask.shape not in ((queries, keys), (maps, queries, keys)):
            return False
        return all(mask is None or mask.dtype == torch.bool or mask.is_floating_point() for mask in masks)

    def _small(self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor | None) -> bool:
        """Whether torch's native operator may do, and is quicker: it is tried, and believed without NaN."""
        return (
            query is key is value
            and self.batch_first
            and not (self.training or torch.is_grad_enabled())
            and readable(query)
            and query.dim() == 3
            and query.shape[0] * self.num_heads * query.shape[1] ** 2 <= SMALL
            and all(mask is None or mask.dtype == torch.bool for mask in masks)
        )

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """q, k and v, (…, E) each, with one product for all that is projected from the same tensor."""
        sources, shares = [query, key, value], [1, 1, 1]
        if self._qkv_same_embed_dim and key is value:
            sources, shares = ([query], [3]) if query is key else ([query, key], [1, 2])
        rows = [share * self.embed_dim for share in shares]
        weights: tuple[Tensor, ...] = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        if self._qkv_same_embed_dim:
            weights = torch.split(self.in_proj_weight, rows)
        biases: tuple[Tensor | None, ...] = (None, None, None)
        if self.in_proj_bias is not None:
            biases = torch.split(self.in_proj_bias.to(weights[0].dtype), rows)
        parts = zip(sources, weights, biases, shares, strict=False)
        return tuple(x for source, w, b, n in parts for x in F.linear(source, w, b).chunk(n, -1))

    def _split(self, x: Float[Tensor, "..."]) -> Heads:
        x = x.reshape(*x.shape[:-1], self.num_heads, self.head_dim)
        if x.dim() == 3:
            return x.transpose(0, 1)[None]  # (L, H, d) → (1, H, L, d)
        return x.transpose(1, 2) if self.batch_first else x.permute(1, 2, 0, 3)

    def _merge(self, context: Heads, batched: bool) -> Float[Tensor, "..."]:
        weight, bias = self.out_proj.weight, self.out_proj.bias
        if not batched:
            return F.linear(context[0].transpose(0, 1).flatten(-2), weight, bias)
        if self.batch_first and not self.training:
            return F.linear(context.transpose(1, 2).flatten(-2), weight, bias)
        output = F.linear(context.permute(2, 0, 1, 3).flatten(-2), weight, bias)  # (L, B, E)
        # In training the numbers lie in memory as torch's do: a dropout that follows then drops the same ones.
        return output.transpose(0, 1) if self.batch_first else output

    def _appended(
        self, k: Keys, v: Keys, key_padding_mask: Tensor | None, attn_mask: Tensor | None
    ) -> tuple[Heads, Heads, Tensor | None, Tensor | None]:
        """With the learned key of `add_bias_kv` and the zeros of `add_zero_attn`, which every query sees."""
        ends: list[tuple[Tensor, Tensor]] = []
        if self.bias_k is not None and self.bias_v is not None:
            shape = (1, self.num_heads, 1, self.head_dim)
            ends.append((self.bias_k.view(shape).to(k.dtype), self.bias_v.view(shape).to(v.dtype)))
        if self.add_zero_attn:
            ends.append((k.new_zeros(1, 1, 1, 1), v.new_zeros(1, 1, 1, 1)))
        if not ends:
            return k, v, key_padding_mask, attn_mask
        size = (*k.shape[:2], 1, self.head_dim)
        k = torch.cat([k, *(end.expand(size) for end, _ in ends)], -2)
        v = torch.cat([v, *(end.expand(size) for _, end in ends)], -2)
        if key_padding_mask is not None:
            key_padding_mask = F.pad(key_padding_mask, (0, len(ends)))
        return k, v, key_padding_mask, attn_mask if attn_mask is None else F.pad(attn_mask, (0, len(ends)))


def _written_out(
    q: Queries, k: Keys, v: Keys, seen: Tensor | None, bias: Tensor | None, scale: float, dropout: float
) -> tuple[Queries, Float[Tensor, "b h l s"]]:
    """Context and weights, both after dropout, as torch's layer returns them in training."""
    added, empty = bias, None
    if seen is not None:
        added = torch.where(seen, q.new_zeros(()) if bias is None else bias, -torch.inf)
    if added is not None:
        empty = added.isneginf().all(-1, keepdim=True)
        if readable(q) and not empty.any():
            empty = None
        else:
            added = added.masked_fill(empty, 0.0)  # a softmax that is finite, and then not used
    maps = scores(q, k, added, scale).softmax(-1)
    maps = maps if empty is None else maps.masked_fill(empty, 0.0)
    maps = F.dropout(maps, dropout) if dropout else maps
    return grouped_matmul(maps, v.to(maps.dtype)).to(q.dtype), maps.to(q.dtype)


def mark(layer: Torchs) -> None:
    """Two marks that other parts of torch look for.

    In eval under no_grad, `nn.TransformerEncoderLayer` takes the parameters of its attention and computes by
    itself, NaN included, unless a module inside has a hook: so one has. And `torch.fx` takes a layer whole,
    without looking into its `forward`, if it says it is of `torch.nn`: so it does.
    """
    if _hook not in layer.out_proj._forward_pre_hooks.values():
        layer.out_proj.register_forward_pre_hook(_hook)
    layer.__module__ = Torchs.__module__


def _hook(out_proj: nn.Module, args: tuple[Tensor]) -> None:
    """Being there is all it does; it is not even called, since the layer uses out_proj's weights alone."""
