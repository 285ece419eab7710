"""Pictures of a `Recording`: a page with every head of every call, or an overview of calls × heads."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from regard.pictures.page.all_heads_page import Page, build_page
from regard.pictures.page.encoding import EXACT_UP_TO, Factors
from regard.pictures.picture import Picture
from regard.pictures.weights.layer_overview import layer_overview
from regard.watching import Call, Recording
from regard.watching.doctor.findings import Finding, Findings
from regard.watching.head_table import abbreviate_call_names

Array = np.ndarray
Names = tuple[Sequence[str] | None, Sequence[str] | None]  # names of the queries and of the keys

MOST_WEIGHTS = 150_000_000  # largest number of weights in a page, about 90 MB
INLINE_WEIGHTS = 2_000_000  # largest number of weights in a page inside a notebook, 8 MB
THUMBNAIL = 64
STATISTICS = ("entropy", "distance", "spread", "sink", "no_key", "empty")  # of each head of a page, in this order


def seen_page(
    seen: Recording, tokens: Any = None, *, batch: int | Sequence[int] | None = None, title: str | None = None,
    most: int = MOST_WEIGHTS, findings: Findings | None = None, other: Recording | None = None,
    other_tokens: Any = None, other_findings: Findings | None = None,
) -> Page:  # fmt: skip
    """Return a page with every head of every recorded call.

    seen                                    a recording of `regard.watch`
    tokens, batch, title, findings          as for `Recording.save`
    most                                    largest number of weights of the batch items that are chosen by default
    other, other_tokens, other_findings     as for `Recording.save`

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 3, 16))
    >>> seen_page(seen, ["The", "cat", "sat"]).title
    'Attention of MultiHeadAttention'
    """
    runs = [(seen, tokens, findings)]
    if other is not None:
        seen.compare(other)  # raises an error if the calls differ
        runs.append((other, tokens if other_tokens is None else other_tokens, other_findings))
    calls = [call for run, *_ in runs for call in run.calls]
    weights = sum(call.shape[1] * call.shape[2] * call.shape[3] for call in calls)
    count = min(call.shape[0] for call in calls)
    if batch is None:
        items = list(range(max(1, min(count, min(EXACT_UP_TO, most) // max(1, weights)))))
    else:
        items = [batch] if isinstance(batch, int) else list(batch)
    for item in items:
        for run, *_ in runs:
            _calls(run, item)
    if weights * len(items) > most:
        longest = max(calls, key=lambda call: call.shape[2] * call.shape[3])
        raise ValueError(
            f"a page holds at most {most:,} weights, got {weights * len(items):,} of {len(calls)} calls; watch with "
            f"only= or max_calls=, save the overview as .png, or draw one head with "
            f"regard.pictures.long_heatmap (the longest call is {longest})"
        )
    layers, names, statistics = [], [], []
    for run, run_tokens, _ in runs:
        for item in items:
            layers += [_layer(call, item) for call in run.calls]
            names += token_names(run.calls, _tokens_of_item(run_tokens, item, count))
            statistics += [[_number(row[key]) for key in STATISTICS] for row in run.summary(batch=item)]
    queries, keys = zip(*names, strict=True)
    report = {
        "items": items,
        "of": count,
        "runs": [_checks(run, run.check() if results is None else results) for run, _, results in runs],
        "statistics": statistics,
    }
    title = _title(seen) if title is None else title
    rows = _rows(seen.calls) * (len(layers) // len(seen.calls))
    return build_page(layers, queries, keys, names=rows, title=title, report=report)


def _checks(run: Recording, findings: Findings) -> dict[str, Any]:
    """Return what the page says about a run: findings, what was checked, what was not seen."""
    places: dict[str, int] = {}
    for place, call in enumerate(run.calls):
        places.setdefault(call.name, place)
    folded = [call.name or "the model" for call in run.calls if call.folded]
    remarks = run.remarks()
    if folded:
        remarks.append(f"Note: batch and heads share one axis and could not be separated: {', '.join(folded)}")
    return {
        "findings": [{**_example(one), "layer": places.get(one.call)} for one in findings],
        "checked": list(dict.fromkeys(check for _, check in findings.checked)),
        "not_checked": findings.not_checked_lines(unseen=False),
        "remarks": remarks,
    }


def _example(finding: Finding) -> dict[str, Any]:
    """Return a finding as the page shows it, with the batch item that its message names."""
    item = re.search(r"batch item (\d+)", finding.message)
    return {
        "what": finding.what,
        "message": finding.message,
        "head": finding.head,
        "item": int(item[1]) if item else None,
        "cell": None if finding.query is None or finding.key is None else [finding.query, finding.key],
    }


def _number(x: float | None) -> float | str | None:
    """Return a number as JSON can hold it; None where it is not known."""
    return x if x is None or math.isfinite(x) else "NaN"


def _tokens_of_item(tokens: Any, item: int, count: int) -> Any:
    """Return the names for one batch item, from one list for all items or one list for each."""
    if not isinstance(tokens, list | tuple) or not tokens or not all(isinstance(x, list | tuple) for x in tokens):
        return tokens
    if len(tokens) != count:
        raise ValueError(f"tokens must hold one list of names for each of {count} batch items, got {len(tokens)} lists")
    return tokens[item]


def seen_overview(seen: Recording, *, batch: int = 0, title: str | None = None, theme: str = "light") -> Picture:
    """Return an overview of calls × heads: mean entropy and a small heatmap of each head, pooled by the maximum.

    seen        a recording of `regard.watch`
    batch       batch item to draw
    title       title of the picture; None chooses one
    theme       "light" or "dark"

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(8, 2)
    >>> with torch.no_grad(), regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 8))
    >>> picture = seen_overview(seen)
    """
    calls = _calls(seen, batch)
    table = np.full((len(calls), max(call.shape[1] for call in calls)), np.nan)
    for row, call in zip(table, calls, strict=True):
        facts = call.statistics
        rows = (~facts.empty[batch]).sum(-1).clamp_min(1)  # rows that are not empty
        row[: call.shape[1]] = (facts.entropy[batch].sum(-1) / rows).cpu().numpy()
    small = None if any(call.stored_statistics for call in calls) else [pooled(call, batch) for call in calls]
    title = _title(seen) if title is None else title
    return layer_overview(table, small, layers=_rows(calls), title=title, theme=theme)


def save_seen(
    seen: Recording, file: str | os.PathLike[str], tokens: Any = None, *, batch: int | Sequence[int] | None = None,
    title: str | None = None, theme: str = "light", **options: Any,
) -> Path:  # fmt: skip
    """Save a recording as a page (.html) or as an overview; `Recording.save` calls this."""
    if Path(file).suffix.lower() in (".html", ".htm"):
        return seen_page(seen, tokens, batch=batch, title=title, **options).save(file)
    if isinstance(batch, Sequence):
        raise ValueError(f"an overview shows one batch item, got batch={list(batch)}; save a page (.html) or one item")
    return seen_overview(seen, batch=batch or 0, title=title, theme=theme).save(file)


def inline_seen(seen: Recording) -> str:
    """Return the HTML that a notebook shows: the page if it is small, else the overview."""
    weights = sum(call.shape[1] * call.shape[2] * call.shape[3] for call in seen.calls)
    if weights > INLINE_WEIGHTS or any(call.stored_statistics for call in seen.calls):
        remarks = "".join(f"<li>{escape(line)}</li>" for line in seen.remarks())
        return seen_overview(seen)._repr_html_() + (f"<ul>{remarks}</ul>" if remarks else "")
    return seen_page(seen)._repr_html_()


def token_names(calls: Sequence[Call], tokens: Any) -> list[Names]:
    """Return the names of each call's queries and keys, from one list for all calls or from lists by module.

    One list for all calls is used wherever its length equals the number of queries or keys. In a decoding step with a
    cache, the keys are the tokens so far and the queries are the last of these tokens.
    """
    if tokens is None:
        return [(None, None)] * len(calls)
    if isinstance(tokens, Mapping):
        return [_by_module(call, tokens) for call in calls]
    if isinstance(tokens, str):
        raise TypeError(f"tokens must be a list of names, got the string {tokens!r}; split it first")
    names = [str(token) for token in tokens]
    call_names = [_by_length(call, names) for call in calls]
    if all(queries is None and keys is None for queries, keys in call_names):
        lengths = ", ".join(f"{length}×{size}" for length, size in dict.fromkeys(call.shape[2:] for call in calls))
        raise ValueError(
            f"tokens must contain one name for each query or key, got {len(names)}; the calls are {lengths}"
        )
    return call_names


def _by_length(call: Call, names: list[str]) -> Names:
    length, size = call.shape[2:]
    if length < size <= len(names) and len(names) != length:
        return names[size - length : size], names[:size]
    return (names if len(names) == length else None), (names if len(names) == size else None)


def _by_module(call: Call, tokens: Mapping[str, Any]) -> Names:
    for pattern, names in tokens.items():
        if fnmatchcase(call.name, pattern) or call.name.startswith(f"{pattern}."):
            if isinstance(names, tuple) and len(names) == 2 and not isinstance(names[0], str):
                return names
            return names, names if call.shape[2] == call.shape[3] else None
    return None, None


def pooled(call: Call, batch: int) -> Array:
    """Return the weights of every head, pooled by the maximum to at most 64 × 64 cells."""
    _, heads, length, size = call.shape
    tall, wide = min(length, THUMBNAIL), min(size, THUMBNAIL)
    row_of, column_of = np.arange(length) * tall // length, np.arange(size) * wide // size
    cells = np.zeros((heads, tall, wide), dtype=np.float32)
    for part in call.weight_blocks():
        if not part.batch.start <= batch < part.batch.stop:
            continue
        weights = part.weights[batch - part.batch.start].cpu().numpy()
        columns, starts = np.unique(column_of[part.keys], return_index=True)
        narrow = np.maximum.reduceat(weights, starts, axis=-1)
        lines, starts = np.unique(row_of[part.rows], return_index=True)
        small = np.maximum.reduceat(narrow, starts, axis=-2)
        where = (part.heads, lines[:, None], columns)
        cells[where] = np.maximum(cells[where], small)
    return cells


def _calls(seen: Recording, batch: int) -> list[Call]:
    if not seen.calls:
        seen[0]  # raises an error that explains why nothing was recorded
    items = min(call.shape[0] for call in seen.calls)
    if not 0 <= batch < items:
        raise ValueError(f"batch must be between 0 and {items - 1}, got {batch}")
    return seen.calls


def _layer(call: Call, batch: int) -> Any:
    """Return the call as `Factors` if queries, keys and a mask determine its weights, otherwise its weights."""
    changed = (call.eager_weights, call.bias, call.bias_rule, call.score_function, call.sinks)
    if call.softcap or any(x is not None for x in changed):
        return call.weights(batch=[batch])[0]  # by a list, since an index is refused where batch and heads are folded
    visible = call.visible(batch) if call.mask is not None or call.boolean_mask is not None else None
    return Factors(call.q[batch], call.k[batch], call.scale, visible)


def _rows(calls: Sequence[Call]) -> list[str]:
    names = abbreviate_call_names([call.name for call in calls])[1]
    return [f"layer {name}" if name.isdecimal() else name for name in names]


def _title(seen: Recording) -> str:
    where = abbreviate_call_names([call.name for call in seen.calls])[0]
    return f"Attention of {type(seen.model).__name__}" + (f": {where}" if seen.calls[0].name else "")
