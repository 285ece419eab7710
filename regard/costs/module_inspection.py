"""The attention layers of a real module, found by running it once and noting what each was called with.

Every layer is then looked at by itself: what it was given says what it costs, and is there to run it again.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Mask, masks
from regard.attention.torch_compat.masks import convert_torch_masks
from regard.compat import MultiheadAttention as Compat
from regard.costs.layer import Layer
from regard.nn import BareSelfAttention, MultiHeadAttention, SelfAttention, SpatialAttention

ATTENTION = (MultiHeadAttention, SelfAttention, BareSelfAttention, SpatialAttention, nn.MultiheadAttention)


@dataclass(frozen=True, eq=False)
class Called:
    """One call of a layer: with what."""

    name: str
    module: nn.Module
    args: tuple[Any, ...]
    keywords: dict[str, Any]

    def read(self, *, backward: bool) -> Layer:
        """Its shape."""
        return _reader(self.module)(self, backward)

    def prepared(self, *, backward: bool) -> Callable[[], object]:
        """The same call, ready to be made; a cache is as it was before."""
        fresh: dict[int, Any] = {}  # what was one tensor stays one

        def ready(thing: Any) -> Any:
            if isinstance(thing, Tensor) and thing.is_floating_point():
                if id(thing) not in fresh:
                    fresh[id(thing)] = thing.detach().requires_grad_(backward)
                return fresh[id(thing)]
            return copy.deepcopy(thing) if hasattr(thing, "append") and hasattr(thing, "reorder") else thing

        elsewhere = {x.device.type for x in (*self.args, *self.module.parameters()) if isinstance(x, Tensor)} - {"cpu"}
        if elsewhere:
            raise ValueError(f"only what is on the CPU can be measured, and this is on {', '.join(elsewhere)}")
        inputs = {"context", "key", "value"}
        args = tuple(ready(arg) for arg in self.args)
        keywords = {n: ready(x) if n in inputs or n == "cache" else x for n, x in self.keywords.items()}
        return runner(self.module, args, keywords, backward=backward)


def runner(
    module: nn.Module, args: tuple[Any, ...], keywords: dict[str, Any], *, backward: bool
) -> Callable[[], object]:
    """A call of the module without arguments: forward alone without gradients, or forward and backward."""
    if not backward:

        def forward() -> object:
            with torch.no_grad():
                return module(*args, **keywords)

        return forward
    for parameter in module.parameters():
        parameter.grad = None
    gradient: list[Tensor] = []

    def both() -> object:
        found = module(*args, **keywords)
        y = found[0] if isinstance(found, tuple) else found
        y.backward(gradient[0])
        return found

    with torch.no_grad():
        found = module(*args, **keywords)
    gradient.append(torch.ones_like(found[0] if isinstance(found, tuple) else found))
    return both


def find_calls(module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> list[Called]:
    """Every call of an attention layer while the module runs once, without gradients."""
    found: list[Called] = []
    handles = []
    for name, layer in module.named_modules():
        if isinstance(layer, ATTENTION):

            def note(layer: nn.Module, args: Any, given: Any, name: str = name) -> None:
                # A cache will have grown by the time it is looked at.
                kept = {key: copy.deepcopy(x) if key == "cache" else x for key, x in given.items()}
                found.append(Called(name, layer, args, kept))

            handles.append(layer.register_forward_pre_hook(note, with_kwargs=True))
    try:
        with torch.no_grad():
            module(*inputs, **keywords)
    finally:
        for handle in handles:
            handle.remove()
    if not found:
        raise ValueError(
            f"no attention layer was called inside {type(module).__name__}; layers of these kinds are counted: "
            "regard.nn (MultiHeadAttention, SelfAttention, BareSelfAttention, SpatialAttention), "
            "regard.compat.MultiheadAttention and torch.nn.MultiheadAttention"
        )
    return found


def _reader(module: nn.Module) -> Callable[[Called, bool], Layer]:
    if isinstance(module, MultiHeadAttention):
        return _multihead
    if isinstance(module, SpatialAttention):
        return _spatial
    return _torch if isinstance(module, nn.MultiheadAttention) else _single


def _numbers(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _rule(mask: Mask | Tensor | None, batch: int, heads: int, queries: int, keys: int) -> tuple[Mask | None, int]:
    """The mask as a rule, and how many numbers it becomes when it is a tensor."""
    if not isinstance(mask, Tensor):
        if mask is not None:
            mask.check(batch, heads, queries, keys)
        return mask, 0
    lead = mask.shape[:-2] if mask.dim() > 2 else ()
    return masks.as_mask(mask.expand(*lead, queries, keys)), mask.numel()


def _multihead(call: Called, backward: bool) -> Layer:
    layer = call.module
    assert isinstance(layer, MultiHeadAttention)
    x = call.args[0] if call.args else call.keywords["x"]
    context = call.args[1] if len(call.args) > 1 else call.keywords.get("context")
    cache, weights = call.keywords.get("cache"), call.keywords.get("weights", False)
    batch, queries, projected = math.prod(x.shape[:-2]), x.shape[-2], x.shape[-2]
    within = context is None or context is x
    keys = queries
    if not within and context is not None:
        done = not isinstance(context, Tensor)  # keys and values of the context were projected before
        keys = context.keys.shape[-2] if done else context.shape[-2]
        projected = 0 if done else keys
    new = queries
    if cache is not None:
        token = x.new_zeros(batch, layer.kv_heads, new, layer.d_k)
        keys = copy.deepcopy(cache).append(token, token)[0].shape[-2]
    mask, added = _rule(call.keywords.get("mask"), batch, layer.heads, queries, keys)
    if cache is not None and new > 1 and cache.rule is not None:
        mask = cache.rule if mask is None else cache.rule & mask
    if within and layer.causal and new > 1:
        mask = masks.causal() if mask is None else masks.causal() & mask
    dropped = layer.training and layer.dropout > 0
    if layer.sinks is not None and (weights or dropped):
        raise ValueError(
            f"{call.name or 'the layer'} has sinks, and computes attention twice when weights or dropout are asked "
            "for: that is not counted here; count the layer without weights"
        )
    size, q = x.element_size(), batch * queries * layer.heads * layer.d_k
    turned = layer.rotary is not None or layer.q_norm is not None
    extra = (q + batch * projected * layer.kv_heads * layer.d_k) * size if turned else 0
    return Layer(
        batch=batch,
        queries=queries,
        keys=keys,
        d_model=layer.d_model,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        d_k=layer.d_k,
        projected=projected,
        key_dim=layer.context_dim,
        value_dim=layer.context_dim,
        parameters=_numbers(layer),
        dtype=x.dtype,
        name=call.name,
        packed=within,
        bias=layer.out.bias is not None,
        mask=mask,
        alibi=layer.alibi,
        materialised=bool(weights) or dropped,
        mean=weights == "mean",
        added=added,
        cache=None if cache is None else cache.nbytes // max(1, 2 * batch * layer.kv_heads * layer.d_k * size),
        returned=bool(weights),
        sinks=layer.sinks is not None,
        extra=extra + (0 if layer.sinks is None else q * size),
    )


def _single(call: Called, backward: bool) -> Layer:
    layer = call.module
    assert isinstance(layer, SelfAttention | BareSelfAttention)
    x = call.args[0] if call.args else call.keywords["x"]
    mask = call.args[1] if len(call.args) > 1 else call.keywords.get("mask")
    if isinstance(mask, Tensor) and mask.dim() > 2:
        mask = mask.unsqueeze(-3)
    batch, length = math.prod(x.shape[:-2]), x.shape[-2]
    rule, added = _rule(mask, batch, 1, length, length)
    bare = isinstance(layer, BareSelfAttention)
    return Layer(
        batch=batch,
        queries=length,
        keys=length,
        d_model=layer.d_model,
        heads=1,
        kv_heads=1,
        d_k=layer.d_k,
        projected=length,
        key_dim=layer.d_model,
        value_dim=layer.d_model,
        parameters=_numbers(layer),
        dtype=x.dtype,
        name=call.name,
        kind="bare" if bare else "single",
        bias=layer.b_q is not None if isinstance(layer, BareSelfAttention) else layer.W_q.bias is not None,
        out=False,
        mask=rule,
        materialised=bool(call.keywords.get("weights", False)),
        added=added,
    )


def _spatial(call: Called, backward: bool) -> Layer:
    layer = call.module
    assert isinstance(layer, SpatialAttention)
    x = call.args[0] if call.args else call.keywords["x"]
    batch, squares = math.prod(x.shape[:-3]), x.shape[-2] * x.shape[-1]
    weights = call.keywords.get("weights", False)
    rule, added = _rule(call.keywords.get("mask"), batch, layer.heads, squares, squares)
    return Layer(
        batch=batch,
        queries=squares,
        keys=squares,
        d_model=layer.channels,
        heads=layer.heads,
        kv_heads=layer.heads,
        d_k=layer.channels // layer.heads,
        projected=squares,
        key_dim=layer.channels,
        value_dim=layer.channels,
        parameters=_numbers(layer),
        dtype=x.dtype,
        name=call.name,
        kind="spatial",
        bias=layer.out.bias is not None,
        mask=rule,
        materialised=bool(weights) or (layer.training and layer.dropout > 0),
        mean=weights == "mean",
        added=added,
        contiguous=x.flatten(-2).transpose(-1, -2).is_contiguous(),
        residual=layer.residual,
        extra=0 if layer.norm is None else x.numel() * x.element_size(),
    )


NAMES = (
    "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights", "is_causal",
)  # fmt: skip


def _torch(call: Called, backward: bool) -> Layer:
    layer = call.module
    assert isinstance(layer, nn.MultiheadAttention)
    given = dict(zip(NAMES, call.args, strict=False)) | call.keywords
    query, key, value = given["query"], given["key"], given["value"]
    length, item = (0, None) if query.dim() == 2 else (1, 0) if layer.batch_first else (0, 1)
    batch = 1 if item is None else query.shape[item]
    queries, projected = query.shape[length], key.shape[length]
    more = (layer.bias_k is not None) + layer.add_zero_attn
    keys, heads = projected + more, layer.num_heads
    asked, dropped = given.get("need_weights", True), layer.training and layer.dropout > 0
    compat, same = isinstance(layer, Compat), query is key and key is value
    mask, added = _torch_mask(given, batch, heads, queries, keys, more, fused=compat and not (asked or dropped))
    native = (
        same
        and not (compat or backward or layer.training or dropped or more)
        and layer.batch_first
        and query.dim() == 3
        and heads % 2 == 0
        and layer.in_proj_bias is not None
        and layer._qkv_same_embed_dim
        and torch.backends.mha.get_fastpath_enabled()
    )
    key_dim = layer.kdim if layer.kdim is not None else layer.embed_dim
    value_dim = layer.vdim if layer.vdim is not None else layer.embed_dim
    return Layer(
        batch=batch,
        queries=queries,
        keys=keys,
        d_model=layer.embed_dim,
        heads=heads,
        kv_heads=heads,
        d_k=layer.head_dim,
        projected=projected,
        key_dim=key_dim,
        value_dim=value_dim,
        parameters=_numbers(layer),
        dtype=query.dtype,
        name=call.name,
        kind="multihead" if compat else "torch",
        packed=same,
        bias=layer.in_proj_bias is not None,
        mask=mask,
        materialised=bool(asked or dropped or native),
        mean=bool(asked and given.get("average_attn_weights", True)),
        ours=compat,
        added=added,
        returned=bool(asked),
        native=native,
        contiguous=compat or batch == 1 or not layer.batch_first or query.dim() == 2,
        turned=compat and layer.training and layer.batch_first and batch > 1 and query.dim() == 3,
    )


def _torch_mask(
    given: dict[str, Any], batch: int, heads: int, queries: int, keys: int, more: int, *, fused: bool
) -> tuple[Mask | None, int]:
    """torch's masks, in which True means ignore, as a rule; and how many numbers are added to the scores."""
    hidden, padded = given.get("attn_mask"), given.get("key_padding_mask")
    if hidden is None and padded is None:
        return None, 0
    if hidden is not None and hidden.dim() == 3:
        hidden = hidden.reshape(batch, heads, *hidden.shape[1:])
    if padded is not None and padded.dim() == 1:
        padded = padded[None]
    if more:
        hidden, padded = (None if m is None else nn.functional.pad(m, (0, more)) for m in (hidden, padded))
    rule: Any = None
    added = 0
    if fused:
        like = torch.empty(batch, heads, queries, 1), torch.empty(batch, heads, keys, 1)
        rule, bias = convert_torch_masks(*like, padded, hidden, bool(given.get("is_causal", False)))
        rest = [part for part in (rule if isinstance(rule, Tensor) else None, bias) if part is not None]
        rule = None if isinstance(rule, Tensor) else rule
    else:
        parts = (hidden, None if padded is None else padded[:, None, None])
        rest = [part if part.dtype != torch.bool else ~part for part in parts if part is not None]
    for part in rest:
        seen = part if part.dtype == torch.bool else ~part.isneginf()
        table = masks.as_mask(seen.expand(*seen.shape[:-2], queries, keys))
        rule = table if rule is None else rule & table
        added += seen.numel()
    return rule, added
