"""A subclass of `nn.MultiheadAttention` that returns no NaN for an empty row, a query whose keys are all masked.

Constructor, parameters, their names and initialisation, state dict and attributes are inherited from torch. Only
`forward` differs: it uses `attend` between the input and output projections.

    q, k, v = x W_inᵀ + b_in        context = attend(q, k, v)        y = context W_outᵀ + b_out

For an empty row the context is 0, so y = b_out; its weights are 0, and no gradient is NaN.
"""

from types import FunctionType
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend_function import attend
from regard.attention.kernels.materialized_weights import grouped_matmul, scores
from regard.attention.kernels.private_torch_operators import in_jit_trace
from regard.attention.torch_compat.torch_masks import combine_masks, convert_torch_masks, values_readable

Heads = Float[Tensor, "b h n d"]
Queries = Float[Tensor, "b h l d"]
Keys = Float[Tensor, "b h s d"]
Forward = TypeVar("Forward")

TorchAttention = nn.MultiheadAttention  # torch's class, even if torch.nn.MultiheadAttention is reassigned later

NATIVE_PAIRS = 1 << 15  # pairs, over batch and heads, up to which torch's native operator is faster than `attend`


def _with_name(name: str, function: Forward) -> Forward:
    """Return a copy of the function with another name, because TorchScript identifies functions by name."""
    assert isinstance(function, FunctionType)
    renamed = FunctionType(function.__code__, function.__globals__, name, function.__defaults__)
    renamed.__annotations__ = function.__annotations__
    return cast(Forward, renamed)


class MultiheadAttention(TorchAttention):
    """`nn.MultiheadAttention` on the fused kernel, without NaN for queries whose keys are all masked.

    embed_dim, num_heads    D and H; H must divide D
    dropout                 probability with which a weight is dropped in training
    bias                    whether the projections have a bias
    add_bias_kv             append a learned key and value
    add_zero_attn           append a key and value of zeros
    kdim, vdim              width of the keys and of the values; D by default
    batch_first             whether tensors are (B, L, D) and not (L, B, D)
    device, dtype           place and type of the weights

    Constructor, arguments and defaults are torch's: sequence first unless `batch_first=True`; weights averaged over
    heads unless `average_attn_weights=False`, and after dropout in training. In `attn_mask` and `key_padding_mask`
    **True means ignore**.

    The results equal torch's, with these exceptions:

    - a query with no visible key has zero weights, and its output is the bias of the output projection;
    - `is_causal=True` without `attn_mask` always raises an error (in eval under no_grad torch applies no mask);
    - `is_causal=True` is used if there are as many queries as keys, otherwise `attn_mask` is (without weights torch
      aligns at the start, and hides the key that `add_bias_kv` appends);
    - a boolean and a float mask can be combined without a warning;
    - `torch.jit.script` compiles torch's own `forward`, which returns NaN for queries without a visible key.

    >>> layer = MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(1, 3, 8)
    >>> padded = torch.ones(1, 3, dtype=torch.bool)             # every key is padding
    >>> output, weights = layer(x, x, x, key_padding_mask=padded)
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
        """Return (output, weights), or (output, None) if `need_weights` is False, in the shapes of torch's layer."""
        options = (key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
        if torch.jit.is_scripting():  # type: ignore[attr-defined]
            return self._torch_forward(query, key, value, *options)
        else:  # noqa: RET505 (TorchScript compiles only the branch that applies)
            return self._safe_forward(query, key, value, *options)

    _torch_forward = _with_name("_torch_forward", TorchAttention.forward)

    def _safe_forward(self, query: Tensor, key: Tensor, value: Tensor, *options: Any) -> tuple[Tensor, Tensor | None]:
        key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal = options
        if not self._is_supported(query, key, value, key_padding_mask, attn_mask):
            # Nested tensors, and invalid inputs, for which torch raises its own errors.
            return super().forward(query, key, value, *options)
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                "`generate_square_subsequent_mask` to create this mask."
            )
        if self._use_native(query, key, value, key_padding_mask, attn_mask):
            result = super().forward(query, key, value, *options)
            if not result[0].isnan().any():
                return result

        batched = query.dim() == 3
        q, k, v = (self._split(x) for x in self._project(query, key, value))
        if key_padding_mask is not None and not batched:
            key_padding_mask = key_padding_mask[None]
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.reshape(*q.shape[:2], *attn_mask.shape[1:])  # (B, H, L, S)
        keys = k.shape[-2]
        k, v, key_padding_mask, attn_mask = self._append_keys(k, v, key_padding_mask, attn_mask)
        is_causal = is_causal and k.shape[-2] == keys  # appended keys are visible to every query

        weights: Tensor | None = None
        dropout = self.dropout if self.training else 0.0
        if dropout or in_jit_trace():
            visible, bias = combine_masks(key_padding_mask, attn_mask)
            context, weights = _materialized(q, k, v, visible, bias, self.head_dim**-0.5, dropout)
            weights = weights.mean(1) if average_attn_weights else weights
        elif need_weights:
            visible, bias = combine_masks(key_padding_mask, attn_mask)
            kind: Any = "mean" if average_attn_weights else True
            context, weights = attend(q, k, v, visible, bias=bias, weights=kind)
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
            mark_layer(self)

    def _is_supported(self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor | None) -> bool:
        """Return whether the inputs are dense tensors of the shapes and dtypes that torch's layer documents."""
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

    def _use_native(self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor | None) -> bool:
        """Return whether to try torch's native operator, which is faster; the caller discards a result with NaN."""
        return (
            query is key is value
            and self.batch_first
            and not (self.training or torch.is_grad_enabled())
            and values_readable(query)
            and query.dim() == 3
            and query.shape[0] * self.num_heads * query.shape[1] ** 2 <= NATIVE_PAIRS
            and all(mask is None or mask.dtype == torch.bool for mask in masks)
        )

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Return q, k and v, (…, E) each, with one product for all projections of the same tensor."""
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
        # In training the memory layout equals torch's, so that a dropout after this layer drops the same numbers.
        return output.transpose(0, 1) if self.batch_first else output

    def _append_keys(
        self, k: Keys, v: Keys, key_padding_mask: Tensor | None, attn_mask: Tensor | None
    ) -> tuple[Heads, Heads, Tensor | None, Tensor | None]:
        """Append the learned key of `add_bias_kv` and the zeros of `add_zero_attn`, which every query sees."""
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


def _materialized(
    q: Queries, k: Keys, v: Keys, visible: Tensor | None, bias: Tensor | None, scale: float, dropout: float
) -> tuple[Queries, Float[Tensor, "b h l s"]]:
    """Return context and weights, both after dropout, as torch's layer returns them in training."""
    added, empty = bias, None
    if visible is not None:
        added = torch.where(visible, q.new_zeros(()) if bias is None else bias, -torch.inf)
    if added is not None:
        empty = added.isneginf().all(-1, keepdim=True)
        if values_readable(q) and not empty.any():
            empty = None
        else:
            added = added.masked_fill(empty, 0.0)  # keeps softmax finite; the row is set to 0 below
    maps = scores(q, k, added, scale).softmax(-1)
    maps = maps if empty is None else maps.masked_fill(empty, 0.0)
    maps = F.dropout(maps, dropout) if dropout else maps
    return grouped_matmul(maps, v.to(maps.dtype)).to(q.dtype), maps.to(q.dtype)


def mark_layer(layer: TorchAttention) -> None:
    """Set two attributes that other parts of torch check.

    In eval under no_grad, `nn.TransformerEncoderLayer` bypasses its attention layer and computes from its parameters,
    with NaN, unless a module inside has a hook: therefore `out_proj` gets one. `torch.fx` treats a layer as a leaf, and
    does not trace its `forward`, if its `__module__` is in `torch.nn`: therefore it gets torch's.
    """
    if _hook not in layer.out_proj._forward_pre_hooks.values():
        layer.out_proj.register_forward_pre_hook(_hook)
    layer.__module__ = TorchAttention.__module__


def _hook(out_proj: nn.Module, args: tuple[Tensor]) -> None:
    """Do nothing. The hook only has to exist; it is never called, because the layer uses the weights of out_proj."""
