"""torch's own attention layer, made safe: `nn.MultiheadAttention` with everything of torch's but its NaN.

The class *is* an `nn.MultiheadAttention`: constructor, parameters, their names and initialisation, state dict
and attributes are inherited. Only `forward` is ours: the same projections, around `attend`.

    q, k, v = x W_inᵀ + b_in        context = attend(q, k, v)        y = context W_outᵀ + b_out

Where torch's masks say True they mean *ignore* (ours: visible); float masks are added to the scores in both.
For an empty row the context is 0, so y = b_out, its weights are 0, and no gradient is NaN.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.fused import attend
from regard.attention.masks import Mask, causal, given, padding
from regard.attention.transforms import transformed
from regard.attention.weighed import by_group, scores

Heads = Float[Tensor, "b h n d"]


class MultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention`, without NaN for empty rows and without losing the fused kernel to weights.

    Constructor, arguments and defaults are torch's: sequence first unless `batch_first=True`, weights returned
    as the mean over heads unless `average_attn_weights=False`, after dropout in training. In `attn_mask` and
    `key_padding_mask` **True means ignore**.

    The numbers are torch's too. What differs:
    - a query with nothing to attend to gets zero weights and the output projection's bias, on every path;
    - `is_causal=True` without `attn_mask` is refused always (torch attends to everything in eval under no_grad);
    - `is_causal=True` is followed where queries and keys are equally many; elsewhere `attn_mask` is what counts;
    - masks of different types, one boolean and one float, go together without a warning;
    - `torch.jit.script` scripts torch's own layer with these parameters, NaN included.

    >>> layer = MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(1, 3, 8)
    >>> nobody = torch.ones(1, 3, dtype=torch.bool)             # every key is padding
    >>> output, weights = layer(x, x, x, key_padding_mask=nobody)
    >>> output.isnan().any().item(), weights.sum().item()
    (False, 0.0)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _keep_from_bypass(self)

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
        """(output, weights), or (output, None) where `need_weights` is False; shapes as of torch's layer."""
        if not self._fits(query, key, value, key_padding_mask, attn_mask):
            # Nested tensors; and what torch refuses, it refuses in its own words.
            return super().forward(
                query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
            )
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                "`generate_square_subsequent_mask` to create this mask."
            )
        batched = query.dim() == 3
        if key_padding_mask is not None and not batched:
            key_padding_mask = key_padding_mask[None]
        q, k, v = (self._heads(x) for x in self._project(query, key, value))
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.unflatten(0, q.shape[:2])  # (B, H, L, S)
        k, v, key_padding_mask, attn_mask = self._appended(k, v, key_padding_mask, attn_mask)
        dropout = self.dropout if self.training else 0.0

        weights: Tensor | None = None
        if dropout:
            seen, bias = _tables(key_padding_mask, attn_mask)
            context, weights = _dropped(q, k, v, seen, bias, dropout)
            weights = weights.mean(1) if average_attn_weights else weights
        elif need_weights:
            seen, bias = _tables(key_padding_mask, attn_mask)
            context, weights = attend(q, k, v, seen, bias=bias, weights="mean" if average_attn_weights else True)
        else:
            mask, bias = _rules(q, k, key_padding_mask, attn_mask, is_causal)
            context = attend(q, k, v, mask, bias=bias)

        output = self._merged(context, batched)
        if weights is None or not need_weights:
            return output, None
        return output, weights if batched else weights[0]

    def _fits(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None
    ) -> bool:
        """Whether it is for us: dense tensors of the shapes and types that torch's layer documents."""
        rank = query.dim()
        if query.is_nested or key.is_nested or value.is_nested or not key.dim() == value.dim() == rank in (2, 3):
            return False
        at = 0 if self.batch_first or rank == 2 else 1
        batch = query.shape[at] if rank == 3 else 1
        queries, keys = query.shape[1 - at if rank == 3 else 0], key.shape[1 - at if rank == 3 else 0]
        widths = (query.shape[-1], key.shape[-1], value.shape[-1])
        if widths != (self.embed_dim, self.kdim, self.vdim) or key.shape[:-1] != value.shape[:-1]:
            return False
        if rank == 3 and key.shape[at] != batch:
            return False
        if key_padding_mask is not None:
            wanted = (batch, keys) if rank == 3 else (keys,)
            if key_padding_mask.shape != wanted or not _readable_type(key_padding_mask):
                return False
        if attn_mask is not None:
            if attn_mask.shape not in ((queries, keys), (batch * self.num_heads, queries, keys)):
                return False
            return _readable_type(attn_mask)
        return True

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """q, k and v, (…, E) each; with one product for what is projected from the same tensor."""
        w, b, width = self.in_proj_weight, self.in_proj_bias, self.embed_dim
        if w is None:
            parts = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            biases = (None,) * 3 if b is None else b.chunk(3)
            return tuple(F.linear(*each) for each in zip((query, key, value), parts, biases, strict=True))
        if query is key is value:
            return F.linear(query, w, b).unflatten(-1, (3, width)).unbind(-2)
        first, rest = (None, None) if b is None else (b[:width], b[width:])
        q = F.linear(query, w[:width], first)
        if key is value:
            return q, *F.linear(key, w[width:], rest).unflatten(-1, (2, width)).unbind(-2)
        k_bias, v_bias = (None, None) if rest is None else rest.chunk(2)
        return q, F.linear(key, w[width : 2 * width], k_bias), F.linear(value, w[2 * width :], v_bias)

    def _heads(self, x: Float[Tensor, "..."]) -> Heads:
        x = x.unflatten(-1, (self.num_heads, self.head_dim))
        if x.dim() == 3:
            return x.transpose(0, 1)[None]  # (L, H, d) → (1, H, L, d)
        return x.transpose(1, 2) if self.batch_first else x.permute(1, 2, 0, 3)

    def _merged(self, context: Heads, batched: bool) -> Float[Tensor, "..."]:
        if not batched:
            merged = context[0].transpose(0, 1)
        else:
            merged = context.transpose(1, 2) if self.batch_first else context.permute(2, 0, 1, 3)
        return F.linear(merged.flatten(-2), self.out_proj.weight, self.out_proj.bias)

    def _appended(
        self, k: Heads, v: Heads, key_padding_mask: Tensor | None, attn_mask: Tensor | None
    ) -> tuple[Heads, Heads, Tensor | None, Tensor | None]:
        """With the learned key and value of `add_bias_kv`, and the zeros of `add_zero_attn`, visible to all."""
        more_k, more_v = [k], [v]
        if self.bias_k is not None and self.bias_v is not None:
            shape = (1, self.num_heads, 1, self.head_dim)
            more_k.append(self.bias_k.view(shape).to(k.dtype).expand(k.shape[0], -1, -1, -1))
            more_v.append(self.bias_v.view(shape).to(v.dtype).expand(v.shape[0], -1, -1, -1))
        if self.add_zero_attn:
            more_k.append(k.new_zeros(*k.shape[:2], 1, k.shape[3]))
            more_v.append(v.new_zeros(*v.shape[:2], 1, v.shape[3]))
        extra = len(more_k) - 1
        if not extra:
            return k, v, key_padding_mask, attn_mask
        key_padding_mask = None if key_padding_mask is None else F.pad(key_padding_mask, (0, extra))
        attn_mask = None if attn_mask is None else F.pad(attn_mask, (0, extra))
        return torch.cat(more_k, -2), torch.cat(more_v, -2), key_padding_mask, attn_mask

    def __prepare_scriptable__(self) -> nn.MultiheadAttention:
        plain = nn.MultiheadAttention.__new__(nn.MultiheadAttention)
        plain.__dict__.update(self.__dict__)
        plain._forward_pre_hooks = type(self._forward_pre_hooks)(
            (key, hook) for key, hook in self._forward_pre_hooks.items() if hook is not _called
        )
        return plain


def _readable_type(mask: Tensor) -> bool:
    return mask.dtype == torch.bool or mask.is_floating_point()


def _tables(
    key_padding_mask: Tensor | None, attn_mask: Tensor | None
) -> tuple[Bool[Tensor, "..."] | None, Float[Tensor, "..."] | None]:
    """torch's two masks as what is visible and what is added, each to broadcast to (B, H, L, S)."""
    seen: Tensor | None = None
    bias: Tensor | None = None
    for mask in (attn_mask, None if key_padding_mask is None else key_padding_mask[:, None, None]):
        if mask is not None and mask.dtype == torch.bool:
            seen = ~mask if seen is None else seen & ~mask
        elif mask is not None:
            bias = mask if bias is None else bias + mask
    return seen, bias


def _rules(
    q: Heads, k: Heads, key_padding_mask: Tensor | None, attn_mask: Tensor | None, is_causal: bool
) -> tuple[Mask | Tensor | None, Tensor | None]:
    """The same with rules where there are some, so that nothing is computed for padding and for the future."""
    rules: list[Mask] = []
    open_ = _open(q)
    if attn_mask is not None and q.shape[-2] == k.shape[-2]:
        hinted = is_causal and key_padding_mask is None  # then torch does not look at attn_mask either
        if hinted or (open_ and _is_causal(attn_mask)):
            rules.append(causal())
            attn_mask = None
    if key_padding_mask is not None and open_:
        real = _real(key_padding_mask)
        if real is not None:
            rules.append(padding(real))
            key_padding_mask = None
    seen, bias = _tables(key_padding_mask, attn_mask)
    if not rules:
        return seen, bias
    mask = rules[0] if len(rules) == 1 else rules[0] & rules[1]
    return (mask if seen is None else mask & given(seen[(None,) * (4 - seen.dim())])), bias


def _open(x: Tensor) -> bool:
    """Whether numbers can be looked at now, and cheaply."""
    return (
        x.device.type == "cpu"
        and type(x) is Tensor
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and not transformed()
    )


def _is_causal(mask: Tensor) -> bool:
    """Whether it is the plain causal mask (L, L): four numbers tell most others, then all are compared."""
    if mask.dim() != 2 or mask.shape[0] < 2 or mask.requires_grad:
        return False
    hides = mask if mask.dtype == torch.bool else mask.isneginf()
    corners = hides[0, 1], hides[0, -1], ~hides[1, 0], ~hides[-1, 0]
    if not all(corners):
        return False
    if not torch.equal(hides, torch.ones_like(hides).triu_(1)):
        return False
    return mask.dtype == torch.bool or not mask.tril().any()


def _real(key_padding_mask: Tensor) -> Bool[Tensor, "b s"] | None:
    """The keys that are real, if the mask says no more than that."""
    if key_padding_mask.dtype == torch.bool:
        return ~key_padding_mask
    real = key_padding_mask == 0
    return real if bool((real | key_padding_mask.isneginf()).all()) else None


def _dropped(
    q: Heads, k: Heads, v: Heads, seen: Tensor | None, bias: Tensor | None, dropout: float
) -> tuple[Heads, Float[Tensor, "b h l s"]]:
    """Context and weights, both after dropout: what torch's layer returns in training."""
    added = bias
    empty: Tensor | None = None
    if seen is not None:
        added = torch.where(seen, torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias, -torch.inf)
    if added is not None:
        empty = added.isneginf().all(-1, keepdim=True)
        if not _open(q) or bool(empty.any()):
            added = added.masked_fill(empty, 0.0)  # a softmax that is finite, and then not used
        else:
            empty = None
    maps = scores(q, k, added, q.shape[-1] ** -0.5).softmax(-1)
    if empty is not None:
        maps = maps.masked_fill(empty, 0.0)
    maps = F.dropout(maps, dropout)
    return by_group(maps, v.to(maps.dtype)).to(q.dtype), maps.to(q.dtype)


def _called(module: nn.Module, args: Any) -> None:
    """A hook that does nothing but be there: see `_keep_from_bypass`."""


def _keep_from_bypass(layer: nn.MultiheadAttention) -> None:
    """In eval under no_grad, `nn.TransformerEncoderLayer` takes the parameters of its attention and computes by
    itself, NaN included, unless there is a hook to be called. So there is one.
    """
    if _called not in layer._forward_pre_hooks.values():
        layer.register_forward_pre_hook(_called)


def replace(model: nn.Module) -> nn.Module:
    """Make every `nn.MultiheadAttention` inside a model ours, in place; returns the model.

    The modules themselves stay, with their parameters, hooks, mode and place in the model: only their class
    changes. So optimizers go on, shared layers stay shared, and the state dict is what it was. It works inside
    `nn.Transformer` and its parts, and on a single layer.

    Subclasses of `nn.MultiheadAttention` are left alone: they may rely on a `forward` of their own.

    >>> model = replace(nn.TransformerEncoderLayer(8, 2, batch_first=True))
    >>> type(model.self_attn).__module__
    'regard.attention.compat'
    """
    for layer in _plain(model):
        layer.__class__ = MultiheadAttention
        _keep_from_bypass(layer)
    return model


def _plain(model: nn.Module) -> Iterator[nn.MultiheadAttention]:
    return (module for module in model.modules() if type(module) is nn.MultiheadAttention)
