"""Terminal report of a recording: all heads, the weights of one head, and what the doctor found."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.watching.call import Call
from regard.watching.doctor.findings import Findings
from regard.watching.head_table import COMPACT, ModulePath
from regard.watching.recording import Recording

SHADES = " ░▒▓█"  # weights as shades, readable without colour
MOST_TOKENS = 24
MOST_CHANGES = 8  # heads in the table of changes
LONGEST_NAME = 16  # columns of the terminal for the name of a token
NUMBER_WIDTH = 5  # such as █1.00


def print_summary(recording: Recording, console: Console) -> None:
    """Print the number, shapes and kernels of the calls, then a table with one row per head."""
    calls = recording.calls
    shapes = list(dict.fromkeys(f"{c.shape[1]} heads, {c.shape[2]} queries × {c.shape[3]} keys" for c in calls))
    kernels = ", ".join(dict.fromkeys(call.kernel for call in calls))
    count = f"{len(calls)} attention call{'s' * (len(calls) > 1)}"
    heading = f"{type(recording.model).__name__}: {count} of {'; '.join(shapes)} (kernel: {kernels})\n"
    console.print(heading, highlight=False)
    console.print(recording.table())


def print_head_weights(
    call: Call, head: int, queries: Sequence[str] | None, keys: Sequence[str] | None, console: Console, batch: int = 0
) -> None:
    """Print the weights of one head, one row per query, for as many keys as fit; tokens without a name are numbered."""
    _, _, length, size = call.shape
    queries = [_shorten(name) for name in queries or map(str, range(length))][:MOST_TOKENS]
    keys = [_shorten(name) for name in keys or map(str, range(size))]
    space = console.width - max(map(cell_len, queries)) - 2
    ends = accumulate(max(cell_len(name), NUMBER_WIDTH) + 1 for name in keys)
    columns = max(1, sum(end <= space for end in ends))
    columns = min(columns, MOST_TOKENS)
    weights = call.weights(batch=[batch], head=[head], queries=slice(0, len(queries)), keys=slice(0, columns))[0, 0]
    item = f", batch item {batch}" if call.shape[0] > 1 else ""
    title = f"{call.name or 'the model'}, head {head}{item}: rows attend to columns"
    console.print(Text(title, style="italic", overflow="fold"))  # a title of the table would be as narrow as the table
    table = Table(**COMPACT)
    table.add_column("", justify="right")
    for name in keys[:columns]:
        table.add_column(Text(name), justify="right", no_wrap=True)
    for name, row in zip(queries, weights.tolist(), strict=True):
        table.add_row(Text(name), *(f"{SHADES[min(4, int(w * 5))]}{w:.2f}".replace("0.", ".") for w in row))
    console.print(table)
    if length > len(queries) or size > columns:
        console.print(f"the first {len(queries)} of {length} queries and {columns} of {size} keys", highlight=False)


def _shorten(name: str) -> str:
    """Return a token's name in at most `LONGEST_NAME` columns of the terminal."""
    return name if cell_len(name) <= LONGEST_NAME else f"{chop_cells(name, LONGEST_NAME - 1)[0]}…"


def most_informative_head(recording: Recording) -> tuple[Call, int]:
    """Return the call and head of lowest entropy, except heads that attend to the first token or the query's own."""
    heads = [(call, head) for call in recording.calls for head in range(call.shape[1])]
    penalties = [row["entropy"] + 3 * row["sink"] + 2 * row.get("own", 0.0) for row in recording.summary()]
    return heads[penalties.index(min(penalties))]


def print_findings(findings: Findings, console: Console) -> None:
    """Print the findings of the attention doctor and what could not be checked, one per line."""
    lines = [f"! {finding}" for finding in findings] or ["The doctor found nothing wrong."]
    if findings.checked:
        lines.append("checked: " + ", ".join(dict.fromkeys(check for _, check in findings.checked)))
    console.print("\n".join([*lines, *findings.not_checked_lines(unseen=False)]), markup=False, highlight=False)


def print_changes(changes: Sequence[dict[str, Any]], console: Console) -> None:
    """Print the heads that change most from one run to another, from `Recording.compare`."""
    columns = {"entropy": "entropy", "distance": "distance", "spread": "spread", "sink": "first"}
    table = Table(title="Changes from the first text to the second, largest first", **COMPACT)
    table.add_column("module")
    for heading in ("head", *columns.values()):
        table.add_column(heading, justify="right", overflow="fold")
    for row in changes[:MOST_CHANGES]:
        numbers = [f"{row[key]:+.2f}" if key in row else "?" for key in columns]
        table.add_row(ModulePath(row["call"]), str(row["head"]), *numbers)
    console.print(table)


def print_relevance(tokens: Sequence[str], values: Sequence[float], purpose: str, console: Console) -> None:
    """Print tokens with their relevance, as a bar and a number."""
    table = Table(title=f"Relevance of each token for {purpose}", **COMPACT)
    for column in ("token", "relevance", ""):
        table.add_column(column, justify="right" if column == "relevance" else "left", overflow="fold")
    most = max([*values, 1e-12])
    for token, value in zip(tokens, values, strict=True):
        table.add_row(Text(token), f"{value:.4f}", "█" * round(20 * max(0.0, value) / most))
    console.print(table)
