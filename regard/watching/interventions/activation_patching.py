"""`regard.patching`: activation patching, which heads carry what one run knows and another does not.

The outputs of single heads of a *clean* run are put into a *corrupted* run, one at a time. A head matters if this moves
the metric of the corrupted run towards that of the clean run:

    recovered = (patched − corrupted) / (clean − corrupted)        0 = no effect, 1 = all of the difference
"""

import glob
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import Any, Literal

import torch
from jaxtyping import Float
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

from regard.watching.call import Call
from regard.watching.head_table import COMPACT, ModulePath, abbreviate_call_names
from regard.watching.interventions.call_changes import LiveCall
from regard.watching.interventions.intervene_context import intervene
from regard.watching.recording import Recording
from regard.watching.watch_context import watch

Metric = Callable[[Any], Any]
MOST_ROWS = 20  # heads in a table of (head, query)


@dataclass(frozen=True)
class PatchingResult:
    """How much of the difference between two runs each head recovers.

    values      share of the difference, (calls, heads) or (calls, heads, queries); NaN where a call has fewer of them
    modules     path of the module of each call
    clean       metric of the clean run
    corrupted   metric of the corrupted run

    >>> result = PatchingResult(torch.tensor([[0.0, 0.75]]), ["layers.0"], clean=2.0, corrupted=-2.0)
    >>> result.largest(1)
    [{'call': 'layers.0', 'head': 1, 'recovered': 0.75}]
    >>> result.metrics
    tensor([[-2.,  1.]])
    """

    values: Float[Tensor, "calls heads *queries"]
    modules: list[str]
    clean: float
    corrupted: float

    @property
    def metrics(self) -> Float[Tensor, "calls heads *queries"]:
        """The metric of each patched run."""
        return self.corrupted + self.values * (self.clean - self.corrupted)

    def largest(self, count: int = MOST_ROWS) -> list[dict[str, Any]]:
        """Return the heads (and queries) with the largest effects of either sign, largest first."""
        sizes = self.values.abs().nan_to_num(-1.0)
        order = sizes.flatten().argsort(descending=True)[: min(count, int((sizes >= 0).sum()))]
        rows = []
        for place in order.tolist():
            call, head, *query = (int(x) for x in torch.unravel_index(torch.tensor(place), self.values.shape))
            row = {"call": self.modules[call], "head": head, **({"query": query[0]} if query else {})}
            rows.append({**row, "recovered": float(self.values[call, head, *query])})
        return rows

    def table(self) -> Table:
        """Return a table for the terminal: calls × heads, or the (head, query) pairs with the largest effects."""
        title = f"Recovered by patching one head (metric: clean {self.clean:.3g}, corrupted {self.corrupted:.3g})"
        table = Table(title=title, **COMPACT)
        if self.values.dim() == 3:
            for column in ("module", "head", "query", "recovered"):
                table.add_column(column, justify="left" if column == "module" else "right", overflow="fold")
            for row in self.largest():
                table.add_row(ModulePath(row["call"]), str(row["head"]), str(row["query"]), _percent(row["recovered"]))
            return table
        pattern, names = abbreviate_call_names(self.modules)
        table.add_column(pattern if pattern != "*" else "module", overflow="fold")
        for head in range(self.values.shape[1]):
            table.add_column(str(head), justify="right", no_wrap=True)
        for name, row in zip(names, self.values.tolist(), strict=True):
            table.add_row(ModulePath(name), *map(_percent, row))
        return table

    def picture(self, *, title: str | None = None, theme: str = "light") -> Any:
        """Return a `regard.pictures.Picture` of the effects: calls × heads, or one row of queries for each head."""
        pictures = import_module("regard.pictures.results.patching_effects")  # pictures import this package
        return pictures.patching_effects(self, title=title, theme=theme)

    def _repr_html_(self) -> str:
        return str(self.picture()._repr_html_())


def patching(
    model: nn.Module,
    clean: Any,
    corrupted: Any,
    metric: Metric,
    *,
    by: Literal["head", "head, query"] = "head",
    progress: bool = True,
) -> PatchingResult:
    """Return how much of the difference between two runs the output of each head recovers.

    clean, corrupted    inputs of the two runs: a tensor, a tuple of arguments, or a dict of named arguments; they must
                        make the same attention calls, with as many queries
    metric              function of the model's output that returns a number, such as a difference of two logits
    by                  "head": patch the outputs of a head for all queries; "head, query": for one query at a time
    progress            show the progress of long runs on stderr, if that is a terminal

    The model runs once for each head (and query), without gradients.

    >>> import regard, torch
    >>> torch.manual_seed(0)                                                        # doctest: +ELLIPSIS
    <...>
    >>> layer = regard.nn.MultiHeadAttention(16, 2)
    >>> clean, corrupted = torch.randn(2, 1, 3, 16)
    >>> result = regard.patching(layer, clean, corrupted, lambda out: out.sum())
    >>> result.values.shape, round(float(result.values.sum()), 4)                   # one layer is linear in its heads
    (torch.Size([1, 2]), 1.0)
    """
    if by not in ("head", "head, query"):
        raise ValueError(f"by must be 'head' or 'head, query', got {by!r}")
    with torch.no_grad():
        with watch(model) as seen:
            clean_metric = _number(metric(_run(model, clean)))
        with watch(model) as other:
            corrupted_metric = _number(metric(_run(model, corrupted)))
        _check_runs(seen, other, clean_metric, corrupted_metric)
        heads = max(call.shape[1] for call in seen.calls)
        lengths = [max(call.shape[2] for call in seen.calls)] if by == "head, query" else []
        metrics = torch.full((len(seen.calls), heads, *lengths), math.nan, dtype=torch.float64)
        places = list(_places(seen.calls, by))
        console = Console(stderr=True)
        hidden = not (progress and console.is_terminal)
        for place in track(places, "patching", console=console, transient=True, disable=hidden):
            call, head, *query = place
            change = _put(seen.calls[call], head, query[0] if query else None)
            with intervene(model, {glob.escape(seen.calls[call].name): change}):
                metrics[place] = _number(metric(_run(model, corrupted)))
    values = (metrics - corrupted_metric) / (clean_metric - corrupted_metric)
    return PatchingResult(values.float(), [call.name for call in seen.calls], clean_metric, corrupted_metric)


def _run(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def _places(calls: list[Call], by: str) -> Iterator[tuple[int, ...]]:
    for number, call in enumerate(calls):
        yield from product([number], range(call.shape[1]), *([range(call.shape[2])] if by == "head, query" else []))


def _put(source: Call, head: int, query: int | None) -> Callable[[LiveCall], Any]:
    """Return an intervention that puts the output of a head of a recorded call into the same call."""
    rows = slice(None) if query is None else slice(query, query + 1)
    output = source.output[:, head : head + 1, rows]

    def patch_output(call: LiveCall) -> Any:
        if call.name != source.name or call.step != source.step:
            return None
        return {"output": output, "head": [head], "queries": rows}

    return patch_output


def _number(value: Any) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        shape = tuple(value.shape) if isinstance(value, Tensor) else value
        raise ValueError(f"metric must return one finite number for the output of the model, got {shape!r}")
    return float(value)


def _check_runs(clean: Recording, corrupted: Recording, clean_metric: float, corrupted_metric: float) -> None:
    clean._check_not_empty()
    runs = [[(call.name, *call.shape[:3]) for call in run.calls] for run in (clean, corrupted)]
    if runs[0] != runs[1]:
        different = next((a, b) for a, b in zip(*runs, strict=False) if a != b) if len(runs[0]) == len(runs[1]) else ()
        detail = f": {different[0]} and {different[1]} (module, B, H, L)" if different else ""
        raise ValueError(
            f"clean and corrupted must make the same attention calls, but they make {len(runs[0])} and {len(runs[1])} "
            f"calls{detail}; use inputs of the same shape"
        )
    if clean_metric == corrupted_metric:
        raise ValueError(
            f"the metric is {clean_metric:.6g} for both clean and corrupted, so that there is no difference to "
            "recover; use inputs or a metric that differ"
        )


def _percent(share: float) -> str:
    if math.isnan(share):
        return ""
    text = f"{round(100 * share)} %".replace("-", "−")
    return f"[bold]{text}[/bold]" if abs(share) >= 0.5 else text
