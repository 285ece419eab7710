"""`regard.agree`: two ways of running a model, compared call by call.

| ways | what is compared |
|---|---|
| "sdpa", "eager", … | attention implementations of a transformers model |
| "math", "flash", "efficient", "cudnn" | torch's kernels of scaled_dot_product_attention |
| "alone", "padded" | each item without its padding, and in the padded batch |
| "prefix", "whole" | the first half of the tokens alone, and in the whole sequence: equal if the model is causal |
| two modules or functions | anything that takes the same inputs |
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.watching.call import Call
from regard.watching.doctor.arguments import read_padding, real_keys
from regard.watching.recording import Recording
from regard.watching.watch_context import watch

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}
BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
ROWS_AT_ONCE = 256
Way = str | nn.Module | Callable[..., Any]


@dataclass(frozen=True)
class Agreement:
    """Result of `regard.agree`: the first difference of the weights, and the largest one of the outputs.

    ways                            the two ways that were compared
    tolerance                       differences up to this number count as equal
    difference                      of the weights at the first place that differs, or the largest one if none does
    call, batch, head, query, key   the first place that differs; None if none does
    output_difference               largest difference of the outputs; None if they could not be compared
    reason                          why calls could not be compared

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
    >>> report = regard.agree(layer, torch.randn(1, 6, 16), "prefix", "whole")
    >>> bool(report), report.call
    (True, None)
    """

    ways: tuple[str, str]
    tolerance: float
    difference: float
    call: str | None = None
    batch: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    output_difference: float | None = None
    reason: str = ""

    def __bool__(self) -> bool:
        """Whether the two ways agree."""
        outputs_agree = self.output_difference is None or self.output_difference <= 10 * self.tolerance
        return self.call is None and not self.reason and outputs_agree

    def __str__(self) -> str:
        a, b = self.ways
        outputs = "" if self.output_difference is None else f"; outputs differ by at most {self.output_difference:.1e}"
        if self.reason:
            return f"{a} and {b} cannot be compared: {self.reason}{outputs}"
        if self.call is None:
            verdict = "no difference" if self else "the weights agree, the outputs do not"
            return f"{a} and {b}: {verdict} (weights differ by at most {self.difference:.1e}{outputs})"
        where = f"{self.call or 'the model'}, head {self.head}, query {self.query} of item {self.batch}"
        return f"{a} and {b} differ first in {where}, key {self.key}: by {self.difference:.1e}{outputs}"


def agree(
    model: nn.Module,
    inputs: Any,
    first: Way = "sdpa",
    second: Way = "eager",
    *,
    padding: Any = None,
    tolerance: float | None = None,
) -> Agreement:
    """Run a model in two ways on the same inputs; return the first layer, head and query whose weights differ.

    inputs          arguments of the model: a dict of keyword arguments, a tuple, or one tensor
    first, second   attention implementations ("sdpa", "eager", …), torch's kernels ("math", "flash", "efficient"),
                    "alone" and "padded", "prefix" and "whole", or other modules or functions to run
    padding         real tokens, as in `seen.check`; by default `attention_mask` of the inputs. Queries that are
                    padding are not compared: their weights are arbitrary.
    tolerance       allowed difference of the weights; by default according to the dtype

    >>> import regard, torch
    >>> from transformers import GPT2Config, GPT2Model
    >>> config = GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=20, bos_token_id=0, eos_token_id=0)
    >>> model = GPT2Model(config).eval()
    >>> mask = torch.tensor([[1] * 6, [0] * 2 + [1] * 4])
    >>> inputs = {"input_ids": torch.arange(12).view(2, 6), "attention_mask": mask}
    >>> bool(regard.agree(model, inputs, "sdpa", "eager"))
    True
    >>> report = regard.agree(model, inputs, "alone", "padded")        # positions are counted from the padding
    >>> report.call, report.batch
    ('h.0.attn', 1)
    """
    arguments, keywords = _arguments(inputs)
    real = _real_tokens(padding, keywords)
    names = _name(first), _name(second)
    with torch.no_grad():
        if set(names) == {"alone", "padded"}:
            result = _compare_items(model, arguments, keywords, real, tolerance)
        elif set(names) == {"prefix", "whole"}:
            result = _compare_prefix(model, arguments, keywords, real, tolerance)
        else:
            runs = [_run(model, way, arguments, keywords) for way in (first, second)]
            result = _compare(*runs[0], *runs[1], tolerance, real)
    return Agreement(names, **result)


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, tuple | list) else ((inputs,), {})


def _real_tokens(padding: Any, keywords: dict[str, Any]) -> Bool[Tensor, "batch keys"] | None:
    mask = keywords.get("attention_mask") if padding is None else padding
    if mask is None or (isinstance(mask, Tensor) and mask.dim() > 2):
        return None
    mask = read_padding(mask)
    if mask.dim() == 1:
        mask = real_keys(mask, int(mask.max()))
    return mask


def _name(way: Way) -> str:
    return way if isinstance(way, str) else getattr(way, "__name__", type(way).__name__)


def _run(model: nn.Module, way: Way, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Recording, Any]:
    """Run the model in one way; return the recording and the output."""
    watched = way if isinstance(way, nn.Module) else model
    with _prepared(model, way), watch(watched, keep="copies") as recording:
        output = (model if isinstance(way, str) else way)(*args, **kwargs)
    if not recording.calls:
        raise ValueError(f"no attention call was recorded in the run {_name(way)!r}; see seen.unseen of regard.watch")
    return recording, output


@contextmanager
def _prepared(model: nn.Module, way: Way) -> Iterator[None]:
    """Context in which the model runs as `way` names it; everything is restored afterwards."""
    if not isinstance(way, str):
        yield
    elif way in BACKENDS:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(getattr(SDPBackend, BACKENDS[way])):
            yield
    elif hasattr(model, "set_attn_implementation"):
        transformer: Any = model
        before = transformer.config._attn_implementation
        transformer.set_attn_implementation(way)
        try:
            yield
        finally:
            transformer.set_attn_implementation(before)
    else:
        known = ", ".join([*BACKENDS, "alone", "padded", "prefix", "whole"])
        raise ValueError(
            f"cannot run {type(model).__name__} as {way!r}: it has no set_attn_implementation; "
            f"expected one of {known}, or a module or function that takes the same inputs"
        )


def _compare(
    a: Recording,
    output_a: Any,
    b: Recording,
    output_b: Any,
    tolerance: float | None,
    real: Bool[Tensor, "batch tokens"] | None,
) -> dict[str, Any]:
    """Return the fields of an `Agreement` for two runs on the same inputs."""
    if len(a.calls) != len(b.calls):
        names = f"{len(a.calls)} calls and {len(b.calls)} calls were recorded"
        return {"tolerance": tolerance or 0.0, "difference": 0.0, "reason": names}
    limit = tolerance or max(_tolerance(call) for call in (*a.calls, *b.calls))
    fields = _first_difference(
        [(x, y, _relevant(x, real), lambda w: w, lambda w: w) for x, y in zip(a.calls, b.calls, strict=True)], limit
    )
    tokens = None if real is None else real
    return {**fields, "tolerance": limit, "output_difference": _output_difference(output_a, output_b, tokens)}


def _tolerance(call: Call) -> float:
    x = call.like
    return TOLERANCES.get(x.dtype, 1e-4)


def _relevant(call: Call, real: Bool[Tensor, "batch tokens"] | None) -> Bool[Tensor, "batch queries"] | None:
    """Return the queries to compare, or None for all: those that are real and see a key."""
    batch, _, length, size = call.shape
    if real is None or call.cross or length != size or real.shape != (batch, length):
        return None
    return real.to(call.like.device)


Pair = tuple[Call, Call, Bool[Tensor, "batch queries"] | None, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]


def _first_difference(pairs: list[Pair], limit: float) -> dict[str, Any]:
    """Return the first place where weights differ by more than the limit, or the largest difference."""
    largest = 0.0
    for a, b, relevant, part_a, part_b in pairs:
        shape = a.shape[:2]
        if shape != b.shape[:2]:
            return {"difference": 0.0, "reason": f"call {a.name!r} has {a.shape}, and {b.shape} in the other run"}
        for item in range(shape[0]):
            x, y = part_a(_weights(a, item)), part_b(_weights(b, item))
            if x.shape != y.shape:
                return {"difference": 0.0, "reason": f"call {a.name!r} has {a.shape}, and {b.shape} in the other run"}
            gap = (x.double() - y.double()).abs()
            gap = gap.masked_fill(x.isnan() & y.isnan(), 0.0).nan_to_num(torch.inf)
            if relevant is not None:
                gap = gap * relevant[item, : gap.shape[1], None]
            if gap.numel() and float(gap.max()) > limit:
                first = (gap.amax(-1) > limit).nonzero()  # (head, query)
                query = int(first[:, 1].min())
                head = int(first[first[:, 1] == query, 0].min())
                key = int(gap[head, query].argmax())
                place = {"call": a.name, "batch": item, "head": head, "query": query, "key": key}
                return {"difference": float(gap[head, query, key]), **place}
            largest = max(largest, float(gap.max()) if gap.numel() else 0.0)
    return {"difference": largest}


def _weights(call: Call, item: int) -> Float[Tensor, "heads queries keys"]:
    return call.weights(batch=[item])[0]


def _compare_items(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], real: Tensor | None, tolerance: float | None
) -> dict[str, Any]:
    """Compare each item of a padded batch with the same item alone, without its padding."""
    if real is None:
        raise ValueError("'alone' and 'padded' need padding=, or an attention_mask (B, S) in the inputs")
    batch, tokens = real.shape
    whole, output = _run(model, model, args, kwargs)
    limit = tolerance or max(map(_tolerance, whole.calls))
    outputs = [0.0]
    differences: list[tuple[int, dict[str, Any]]] = []
    for item in range(batch):
        keep = real[item].nonzero()[:, 0]

        def select(x: Any, item: int = item, keep: Tensor = keep) -> Any:
            if not isinstance(x, Tensor) or x.dim() == 0 or x.shape[0] != batch:
                return x
            return x[item : item + 1, keep] if x.dim() > 1 and x.shape[1] == tokens else x[item : item + 1]

        alone, output_alone = _run(model, model, tuple(map(select, args)), {k: select(x) for k, x in kwargs.items()})
        for number, (a, b) in enumerate(zip(alone.calls, whole.calls, strict=False)):
            x, y = _weights(a, 0), _weights(b, item)
            y = y[:, keep] if y.shape[1] == tokens else y
            y = y[..., keep] if y.shape[2] == tokens else y
            if x.shape != y.shape:
                reason = f"call {a.name!r} has {tuple(x.shape)} alone and {tuple(y.shape)} in the batch"
                return {"tolerance": limit, "difference": 0.0, "reason": reason}
            gap = (x.double() - y.double()).abs().nan_to_num(torch.inf)
            head, query, key = (int(n) for n in torch.unravel_index(gap.argmax(), gap.shape))
            place = {"call": a.name, "batch": item, "head": head, "query": query, "key": key}
            differences.append((number, {"difference": float(gap.max()), **place}))
        pairs = zip(_tensors(output_alone), _tensors(output), strict=False)
        for x, y in pairs:
            if x.dim() > 1 and y.dim() > 1 and y.shape[:2] == (batch, tokens) and x.shape[1] == len(keep):
                outputs.append(_largest(x[0], y[item, keep]))
    wrong = sorted((x for x in differences if x[1]["difference"] > limit), key=lambda x: x[0])
    fields = wrong[0][1] if wrong else {"difference": max((x["difference"] for _, x in differences), default=0.0)}
    return {**fields, "tolerance": limit, "output_difference": max(outputs)}


def _compare_prefix(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], real: Tensor | None, tolerance: float | None
) -> dict[str, Any]:
    """Compare the first half of the tokens alone with the same tokens in the whole sequence."""
    first = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.dim() > 1), None)
    if first is None or first.shape[1] < 2:
        raise ValueError("'prefix' and 'whole' need an input (B, S, …) with at least two tokens")
    tokens = first.shape[1]
    half = tokens // 2

    def shorten(x: Any) -> Any:
        return x[:, :half] if isinstance(x, Tensor) and x.dim() > 1 and x.shape[1] == tokens else x

    whole, output = _run(model, model, args, kwargs)
    prefix, output_prefix = _run(model, model, tuple(map(shorten, args)), {k: shorten(x) for k, x in kwargs.items()})
    limit = tolerance or max(map(_tolerance, whole.calls))
    relevant = None if real is None else real[:, :half]
    pairs: list[Pair] = [
        (a, b, relevant, lambda w: w, lambda w, n=a.shape[2], m=a.shape[3]: w[:, :n, :m])  # type: ignore[misc]
        for a, b in zip(prefix.calls, whole.calls, strict=False)
    ]
    outputs = [
        _largest(x, y[:, :half], relevant)
        for x, y in zip(_tensors(output_prefix), _tensors(output), strict=False)
        if y.dim() > 1 and y.shape[1] == tokens and x.shape[1] == half
    ]
    fields = _first_difference(pairs, limit)
    return {**fields, "tolerance": limit, "output_difference": max(outputs, default=None)}


def _tensors(output: Any) -> list[Tensor]:
    """Return the floating-point tensors of a model's output."""
    if isinstance(output, Tensor):
        return [output] if output.dtype.is_floating_point else []
    if isinstance(output, Mapping):
        output = list(output.values())
    return [x for part in output for x in _tensors(part)] if isinstance(output, list | tuple) else []


def _output_difference(a: Any, b: Any, real: Tensor | None) -> float | None:
    pairs = [(x, y) for x, y in zip(_tensors(a), _tensors(b), strict=False) if x.shape == y.shape]
    return max((_largest(x, y, real) for x, y in pairs), default=None)


def _largest(a: Tensor, b: Tensor, real: Tensor | None = None) -> float:
    """Return the largest difference, of real tokens if the tensors have the axes of `real` first."""
    gap = (a.double() - b.double()).abs().nan_to_num(torch.inf)
    if real is not None and gap.dim() > 1 and gap.shape[:2] == real.shape:
        gap = gap[real.to(gap.device)]
    return float(gap.max()) if gap.numel() else 0.0
