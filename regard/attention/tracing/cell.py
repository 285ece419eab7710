"""The formula of one cell of a step, with the numbers of the trace in place of the letters.

Displayed numbers are rounded, so a sum of them can differ by one in the last digit; the text therefore has ≈, not =.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.attention.tracing.trace_record import Trace

Array = np.ndarray


def number(x: float, decimals: int = 3) -> str:
    """Return a number with fixed decimals; infinities as ±∞, and no minus sign before a zero.

    >>> number(-0.0001), number(-1.5), number(float("-inf")), number(1234567.0)
    ('0.000', '-1.500', '−∞', '1.235e+06')
    """
    if np.isinf(x):
        return "∞" if x > 0 else "−∞"
    if abs(x) >= 1e5:
        return f"{x:.{decimals}e}"
    return f"{round(x, decimals) + 0.0:.{decimals}f}"  # + 0.0 turns −0.0 into 0.0


def token_name(tokens: Sequence[str], i: int) -> str:
    """Return the token at a position, with the position appended if the token occurs more than once.

    >>> token_name(["the", "cat", "the"], 1), token_name(["the", "cat", "the"], 2)
    ('cat', 'the#2')
    """
    return f"{tokens[i]}#{i}" if list(tokens).count(tokens[i]) > 1 else tokens[i]


def explain_cell(
    trace: Trace, step: str, query: int = 0, key: int = 0, *, lead: Sequence[int] | None = None, decimals: int = 3
) -> str:
    """Return the formula of a step for one cell, with the numbers of the trace.

    trace       a trace of `regard.trace` or `trace_layer`
    step        name of a step, such as "scores"
    query, key  row and column of the cell
    lead        index of the batch item followed by the head; zeros by default
    decimals    number of decimals to show

    If a step has a feature axis, the formula is for the first feature of that head.

    >>> import regard
    >>> t = regard.trace([[2.0, 1.0]], [[1.0, 0.5], [0.0, 1.0]], [[1.0], [3.0]], scale=1.0, tokens=["it"])
    >>> for name in ("scores", "exponentials", "sum", "weights", "context"):
    ...     print(explain_cell(t, name, decimals=2))
    score(it, k0) = 2.00×1.00 + 1.00×0.50 ≈ 2.50
    e(it, k0) = exp(2.50 − 2.50) ≈ 1.00
    sum(it) = 1.00 + 0.22 ≈ 1.22
    weight(it, k0) = 1.00 / 1.22 ≈ 0.82
    context(it)[0] = 0.82×1.00 + 0.18×3.00 ≈ 1.36
    """
    rank = trace.part("scores").values.ndim
    lead = (0,) * max(rank - 2, 0) if lead is None else tuple(lead)
    head, batch = (lead[-1] if lead else 0), lead[:-1]
    kv_lead = (*batch, head * trace.kv_heads // trace.heads) if lead else ()
    row = () if rank == 1 else (*lead, query)
    q, k = token_name(trace.tokens, query), token_name(trace.key_tokens, key)
    source = "split" if trace.kind == "layer" else "inputs"

    def of_row(name: str) -> Any:
        return trace.part(name).values[row]

    def n(x: float) -> str:
        return number(x, decimals)

    def at_pair(name: str) -> str:
        return n(of_row(name)[key])

    match step:
        case "project":
            column = head * trace.part("split", "Q").shape[-1]
            x = trace.part("inputs", "X").values[(*batch, query)]
            terms = _products(x, trace.part("inputs", "W_q").values[:, column], decimals)
            terms += _plus_bias(trace, "b_q", column, decimals)
            result = trace.part("project", "Q").values[(*batch, query, column)]
            return f"Q({q})[{column}] = {terms} ≈ {n(result)}"
        case "split":
            width = trace.part("split", "Q").shape[-1]
            return f"Q({q}) of head {head} = columns {head * width} to {(head + 1) * width - 1} of Q({q})"
        case "scores":
            keys = trace.part(source, "K").values[(*kv_lead, key)]
            terms = _products(trace.part(source, "Q").values[row], keys, decimals)
            return f"score({q}, {k}) = {terms} ≈ {at_pair('scores')}"
        case "scale":
            return f"scaled({q}, {k}) = {at_pair('scores')} × {trace.scale:.4g} ≈ {at_pair('scale')}"
        case "mask":
            if np.isneginf(of_row("mask")[key]):
                return f"{q} may not see {k}: {at_pair('scale')} becomes {at_pair('mask')}"
            return f"{q} sees {k}: {at_pair('scale')} stays"
        case "maximum":
            return f"maximum({q}) = max({_list(of_row('mask'), ', ', decimals)}) = {n(of_row('maximum'))}"
        case "exponentials":
            score, maximum = at_pair("mask"), n(of_row("maximum"))
            return f"e({q}, {k}) = exp({score} − {_bracket(maximum)}) ≈ {at_pair('exponentials')}"
        case "sum":
            return f"sum({q}) = {_list(of_row('exponentials'), ' + ', decimals)} ≈ {n(of_row('sum'))}"
        case "weights":
            if of_row("sum") == 0:
                return f"{q} sees nothing: all its weights are 0"
            return f"weight({q}, {k}) = {at_pair('exponentials')} / {n(of_row('sum'))} ≈ {at_pair('weights')}"
        case "context":
            values = trace.part(source, "V").values[kv_lead][:, 0]
            terms = _products(of_row("weights"), values, decimals)
            return f"context({q})[0] = {terms} ≈ {n(of_row('context')[0])}"
        case "merge":
            width = trace.part("context").shape[-1]
            return f"merged({q})[{head * width} to {(head + 1) * width - 1}] = context({q}) of head {head}"
        case "output":
            merged = trace.part("merge").values[(*batch, query)]
            terms = _products(merged, trace.part("inputs", "W_o").values[:, 0], decimals)
            terms += _plus_bias(trace, "b_o", 0, decimals)
            return f"output({q})[0] = {terms} ≈ {n(trace.output[(*batch, query, 0)])}"
        case _:
            raise KeyError(f"no step {step!r} in this trace; it has {', '.join(s.name for s in trace.steps)}")


def _products(a: Array, b: Array, decimals: int, limit: int = 4) -> str:
    terms = [f"{_bracket(number(x, decimals))}×{_bracket(number(y, decimals))}" for x, y in zip(a, b, strict=True)]
    return " + ".join(terms if len(terms) <= limit else [*terms[: limit - 1], "…", terms[-1]]) or "0"


def _list(row: Array, separator: str, decimals: int, limit: int = 7) -> str:
    terms = [number(x, decimals) for x in row]
    return separator.join(terms if len(terms) <= limit else [*terms[: limit - 1], "…", terms[-1]])


def _plus_bias(trace: Trace, symbol: str, column: int, decimals: int) -> str:
    biases = [part.values for part in trace.inputs if part.symbol == symbol]
    return f" + {_bracket(number(biases[0][column], decimals))}" if biases else ""


def _bracket(text: str) -> str:
    return f"({text})" if text.startswith(("-", "−")) else text
