"""`regard.cost`: operations and bytes of attention, from numbers or of a real module."""

from collections.abc import Sequence
from typing import Any, overload

import torch
from torch import Tensor, nn

from regard.attention import Mask, masks
from regard.costs.estimate import Cost, Prepare, estimate
from regard.costs.layer import Layer, plain_layer

NAMED = {
    "float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
}  # fmt: skip


@overload
def cost(
    *, d_model: int = 512, heads: int = 8, seq: int | Sequence[int] = (512, 2048, 8192), batch: int = 1,
    kv_heads: int | None = None, d_k: int | None = None, queries: int | None = None, mask: Mask | str | None = None,
    causal: bool = False, dtype: torch.dtype | str = torch.float32, bias: bool = True, backward: bool = False,
    cached: bool = False, materialised: bool = False,
) -> Cost: ...  # fmt: skip
@overload
def cost(module: nn.Module, /, *inputs: Any, backward: bool = False, **keywords: Any) -> Cost: ...


def cost(*module_and_inputs: Any, backward: bool = False, **options: Any) -> Cost:
    """Operations and bytes of attention by part, predicted; `.measure()` then runs it and compares.

    From numbers, `cost(d_model=512, heads=8, seq=[512, 2048, 8192])`, for `regard.nn.MultiHeadAttention`:

    d_model, heads, kv_heads, d_k   D, H, H_kv and d_k of the layer; kv_heads = H and d_k = D / H unless given
    seq             S, the number of keys: one, or several for a column each
    batch           B
    queries         L; as many as keys unless given, and one with a cache. Other than S, it is cross-attention
    mask            a rule of `regard.masks`, or one as text: only visible pairs are counted
    causal          hide the future as well
    dtype           of the numbers; float32 unless given
    bias            whether the four projections add one
    cached          decoding: the S keys are in a KV cache but for those of the new tokens
    materialised    the weights are written out and returned
    backward        count the backward pass as well

    Of a module, `cost(module, *inputs, **keywords)`: it is run once on the input, and every attention layer that is
    called inside is counted, those of `regard.nn`, `regard.compat` and `torch.nn.MultiheadAttention`. One input is
    enough for a layer of torch's: it is query, key and value. What is no attention layer is not counted. On the
    device "meta" nothing is computed, so a model too large for the machine can be counted, though not measured.

    What is counted: a multiplication and an addition are two operations; scores and weighted sum take 2·pairs·d_k
    each, softmax 5·pairs, a projection 2·tokens·D·width (operations.py). Backward, fused attention takes 2.5 times
    its forward products, a projection twice. Pairs are given as visible (what the mathematics needs) and as computed
    (what our tiles do under the mask); `matmul` counts the latter, and is what a counter of the run finds. The peak
    of bytes is beyond what was there before the call (peak.py). Paths, tiles and buffers are those of the CPU.

    >>> import regard
    >>> found = regard.cost(d_model=512, heads=8, seq=2048, mask=regard.masks.causal()).estimates[0]
    >>> found.pairs.visible == 8 * 2048 * 2049 // 2
    True
    >>> found.operations["scores"].forward == 2 * found.pairs.visible * 64
    True
    >>> layer = regard.nn.SelfAttention(16)
    >>> regard.cost(layer, torch.zeros(1, 10, 16)).estimates[0].matmul.forward    # 3 · 2·10·16·16 + 2 · 2·10·10·16
    21760
    """
    if not module_and_inputs:
        return _of_numbers(backward=backward, **options)
    module, *inputs = module_and_inputs
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"cost takes a module and its input, or numbers by name such as cost(d_model=512, heads=8); got {module!r}"
        )
    return _of_module(module, tuple(inputs), options, backward)


def _of_numbers(
    *,
    d_model: int = 512,
    heads: int = 8,
    seq: int | Sequence[int] = (512, 2048, 8192),
    batch: int = 1,
    kv_heads: int | None = None,
    d_k: int | None = None,
    queries: int | None = None,
    mask: Mask | str | None = None,
    causal: bool = False,
    dtype: torch.dtype | str = torch.float32,
    bias: bool = True,
    backward: bool = False,
    cached: bool = False,
    materialised: bool = False,
) -> Cost:
    lengths = _lengths(seq)
    numbers = {"d_model": d_model, "heads": heads, "batch": batch, "kv_heads": kv_heads, "d_k": d_k, "queries": queries}
    for name, value in numbers.items():
        if value is not None:
            _check_count(name, value)
    rule = _rule(mask, causal)
    number_type = _dtype(dtype)
    if cached and backward:
        raise ValueError("a cache is for decoding and has no backward pass; leave out cached or backward")
    if cached and rule is None and (queries or 1) > 1:
        rule = masks.causal()  # without it a new token would see those after it
    layers = [
        plain_layer(
            length, d_model=d_model, heads=heads, batch=batch, kv_heads=kv_heads, d_k=d_k, queries=queries, mask=rule,
            dtype=number_type, bias=bias, cached=cached, materialised=materialised,
        )
        for length in lengths
    ]  # fmt: skip
    said = [f"D = {d_model}", f"H = {heads}", f"H_kv = {kv_heads}" if kv_heads else "", f"B = {batch}"]
    said += [str(number_type).removeprefix("torch."), "" if rule is None else repr(rule)]
    said += ["with a KV cache" if cached else "", "weights written out" if materialised else ""]
    said += [f"L = {layers[0].queries}" if queries or cached else ""]
    return Cost(
        tuple(estimate([layer], backward=backward) for layer in layers),
        backward,
        ", ".join(part for part in said if part),
        tuple((_prepare(layer, backward),) for layer in layers),
    )


def _of_module(module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], backward: bool) -> Cost:
    from regard.costs.module_inspection import find_calls

    if not inputs and not keywords:
        raise TypeError(f"cost of a module needs its input: cost({type(module).__name__.lower()}, x)")
    if isinstance(module, nn.MultiheadAttention) and len(inputs) == 1 and "key" not in keywords:
        inputs = inputs * 3
    calls = find_calls(module, inputs, keywords)
    layers = [call.read(backward=backward) for call in calls]
    several = f", {len(calls)} calls of attention layers" if len(calls) > 1 else ""
    prepare = tuple((lambda call=call: call.prepared(backward=backward)) for call in calls)
    return Cost((estimate(layers, backward=backward),), backward, type(module).__name__ + several, (prepare,))


def _prepare(layer: Layer, backward: bool) -> Prepare:
    """A real layer and input of these shapes, made when asked for."""

    def prepare() -> Any:
        from regard.costs.module_inspection import runner
        from regard.nn import KVCache, MultiHeadAttention

        real = MultiHeadAttention(
            layer.d_model, layer.heads, layer.kv_heads, d_k=layer.d_k, bias=layer.bias, causal=False
        )
        real = real.to(layer.dtype)

        def tokens(count: int, width: int = layer.d_model) -> Tensor:
            return torch.randn(layer.batch, count, width, dtype=layer.dtype, requires_grad=backward)

        keywords: dict[str, Any] = {"mask": layer.mask, "weights": layer.materialised}
        x = tokens(layer.queries)
        if layer.cache is not None:
            cache = KVCache(layer.batch, layer.kv_heads, layer.keys, layer.d_k, dtype=layer.dtype)
            before = layer.keys - layer.queries
            if before:
                past = torch.randn(layer.batch, layer.kv_heads, before, layer.d_k).to(layer.dtype)
                cache.append(past, past)
            keywords["cache"] = cache
        args = (x,) if layer.packed else (x, tokens(layer.keys))
        return runner(real, args, keywords, backward=backward)

    return prepare


def _lengths(seq: int | Sequence[int]) -> list[int]:
    lengths = [seq] if isinstance(seq, int) else list(seq)
    if not lengths:
        raise ValueError("seq must hold at least one length, got none; try seq=[512, 2048, 8192]")
    for length in lengths:
        _check_count("seq", length)
    return lengths


def _rule(mask: Mask | str | None, causal: bool) -> Mask | None:
    rule = masks.parse(mask) if isinstance(mask, str) else mask
    if rule is not None and not isinstance(rule, Mask):
        raise TypeError(
            f"mask must be a rule of regard.masks, or one as text such as 'window(keys=256)', got {type(rule).__name__}"
        )
    if not causal:
        return rule
    return masks.causal() if rule is None else masks.causal() & rule


def _dtype(dtype: torch.dtype | str) -> torch.dtype:
    found = NAMED.get(dtype) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(f"dtype must be one of {', '.join(NAMED)}, got {dtype!r}")
    return found


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
