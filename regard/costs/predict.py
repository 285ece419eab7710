"""`regard.cost`: operations and bytes of attention, from sizes or of a real module."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, overload

import torch
from torch import nn

from regard.attention import Mask, masks
from regard.attention.integer_arguments import check_integer
from regard.costs.estimate import estimate_layers
from regard.costs.module_inspection import ModuleCall, find_calls
from regard.costs.result import Cost
from regard.nn import KVCache, MultiHeadAttention

DTYPES = {
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
def cost(module: nn.Module, /, *inputs: Any, backward: bool = False, **kwargs: Any) -> Cost: ...


def cost(*module_and_inputs: Any, backward: bool = False, **options: Any) -> Cost:
    """Predict operations and bytes of attention by part; `.measure()` of the result compares them with a real run.

    `cost(d_model=512, heads=8, seq=[512, 2048, 8192])` describes a `regard.nn.MultiHeadAttention` by its sizes:

    module_and_inputs               a module and its inputs; nothing if the layer is described by sizes
    backward                        count the backward pass too
    options                         sizes, as below, or keyword arguments of the module
    d_model, heads, kv_heads, d_k   D, H, H_kv and d_k of the layer; by default H_kv = H and d_k = D / H
    seq                             S, the number of keys: one length, or several
    batch                           B
    queries                         L; by default as many as keys, or one with a cache. Any other number means
                                    cross-attention
    mask                            a mask of `regard.masks`, or its text: only visible pairs are counted
    causal                          add a causal mask
    dtype                           type of the numbers
    bias                            whether the four projections have a bias
    cached                          decoding: all keys but those of the new tokens are in a KV cache
    materialised                    store and return the weights

    `cost(module, *inputs, **kwargs)` runs a module once on its inputs and counts every attention layer called inside:
    those of `regard.nn`, `regard.compat` and `torch.nn.MultiheadAttention`. For a layer of torch one input is enough,
    which becomes query, key and value. Other layers of the module are not counted. On the device "meta" nothing is
    computed, so a model that is too large for the machine can be counted, but not measured.

    A multiplication and an addition are two operations. Scores and weighted sum take 2·pairs·d_k each, softmax 5·pairs,
    a projection 2·tokens·D·width; see `regard.costs.operations`. Backward, fused attention takes 2.5 times its forward
    products, a projection twice. Pairs are given as visible (those of the formula) and as computed (those in the tiles
    that regard computes under the mask); `matmul` counts the computed ones, as a profiler does. The peak contains
    no tensor that exists before the call; see `predicted_peak_memory.py`. Kernels and buffers are those of the CPU.

    >>> import regard
    >>> estimate = regard.cost(d_model=512, heads=8, seq=2048, mask=regard.masks.causal()).estimates[0]
    >>> estimate.pairs.visible == 8 * 2048 * 2049 // 2
    True
    >>> estimate.operations["scores"].forward == 2 * estimate.pairs.visible * 64
    True
    >>> layer = regard.nn.SelfAttention(16)
    >>> regard.cost(layer, torch.zeros(1, 10, 16)).estimates[0].matmul.forward    # 3 · 2·10·16·16 + 2 · 2·10·10·16
    21760
    """
    if not module_and_inputs:
        return _cost_of_sizes(backward=backward, **options)
    module, *inputs = module_and_inputs
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"cost expects a module and its input, or sizes by name such as cost(d_model=512, heads=8); got {module!r}"
        )
    if not inputs and not options:
        raise TypeError(f"cost of a module needs its input: cost({type(module).__name__.lower()}, x)")
    if isinstance(module, nn.MultiheadAttention) and len(inputs) == 1 and "key" not in options:
        inputs = inputs * 3
    calls = find_calls(module, tuple(inputs), options)
    estimate = estimate_layers([call.layer(backward=backward) for call in calls], backward=backward)
    description = type(module).__name__ + (f", {len(calls)} calls of attention layers" if len(calls) > 1 else "")
    prepares = tuple(partial(call.prepare, backward=backward) for call in calls)
    return Cost((estimate,), backward, description, (prepares,))


def _cost_of_sizes(
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
    lengths = [seq] if isinstance(seq, int) else list(seq)
    if not lengths:
        raise ValueError("seq must contain at least one length, got none; try seq=[512, 2048, 8192]")
    counts = {"d_model": d_model, "heads": heads, "batch": batch, "kv_heads": kv_heads, "d_k": d_k, "queries": queries}
    for name, value in [*counts.items(), *(("seq", length) for length in lengths)]:
        if value is not None:
            check_integer(name, value, 1)
    rule = _combined_mask(mask, causal)
    number_type = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if not isinstance(number_type, torch.dtype) or not number_type.is_floating_point:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if cached and backward:
        raise ValueError("a KV cache is for decoding and has no backward pass; leave out cached or backward")
    if cached and rule is None and (queries or 1) > 1:
        rule = masks.causal()  # new tokens must not see those after them

    def build(length: int, device: str) -> ModuleCall:
        """Return the call of a layer of these sizes; on the device "meta" nothing is allocated."""
        count = (1 if cached else length) if queries is None else queries
        if cached and count > length:
            raise ValueError(f"with a cache the queries are the last keys; got {count} queries and {length} keys")
        with torch.device(device):
            layer = MultiHeadAttention(d_model, heads, kv_heads, d_k=d_k, bias=bias).to(number_type)
            x = torch.randn(batch, count, d_model, dtype=number_type)
            kwargs: dict[str, Any] = {"mask": rule, "weights": materialised}
            if cached:
                kwargs["cache"] = KVCache(batch, layer.kv_heads, length, layer.d_k, dtype=number_type, device=device)
                past = torch.randn(batch, layer.kv_heads, length - count, layer.d_k).to(number_type)
                kwargs["cache"].append(past, past)
            is_self_attention = cached or count == length
            args = (x,) if is_self_attention else (x, torch.randn(batch, length, d_model, dtype=number_type))
            return ModuleCall("", layer, args, kwargs)

    def prepare(length: int) -> Callable[[], object]:
        return build(length, "cpu").prepare(backward=backward)

    layers = [build(length, "meta").layer(backward=backward) for length in lengths]
    description = [f"D = {d_model}", f"H = {heads}", f"H_kv = {kv_heads}" if kv_heads else "", f"B = {batch}"]
    description += [str(number_type).removeprefix("torch."), "" if rule is None else repr(rule)]
    description += ["with a KV cache" if cached else "", "weights stored" if materialised else ""]
    description += [f"L = {layers[0].queries}" if queries or cached else ""]
    estimates = tuple(estimate_layers([layer], backward=backward) for layer in layers)
    calls = tuple((partial(prepare, length),) for length in lengths)
    return Cost(estimates, backward, ", ".join(part for part in description if part), calls)


def _combined_mask(mask: Mask | str | None, causal: bool) -> Mask | None:
    rule = masks.parse(mask) if isinstance(mask, str) else mask
    if rule is not None and not isinstance(rule, Mask):
        raise TypeError(
            f"mask must be a mask of regard.masks, or its text such as 'window(keys=256)', got {type(rule).__name__}"
        )
    if not causal:
        return rule
    return masks.causal() if rule is None else masks.causal() & rule
