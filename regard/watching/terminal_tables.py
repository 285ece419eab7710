"""Terminal report of a recording: a table of all heads, the weights of one head, the doctor's findings."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.watching.call import Call
from regard.watching.doctor.findings import Findings
from regard.watching.recording import Recording

SHADES = " ░▒▓█"  # weights as shades, readable without colour
MOST_TOKENS = 24


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
    call: Call, head: int, queries: Sequence[str] | None, keys: Sequence[str] | None, console: Console
) -> None:
    """Print the weights of one head, one row per query; tokens without a name are numbered."""
    _, _, length, size = call.shape
    rows, columns = min(length, MOST_TOKENS), min(size, MOST_TOKENS)
    weights = call.weights(batch=0, head=head, queries=slice(0, rows), keys=slice(0, columns))
    queries = queries or [str(i) for i in range(length)]
    keys = keys or [str(j) for j in range(size)]
    table = Table(title=f"{call.name}, head {head}: rows attend to columns", title_justify="left")
    table.add_column("", justify="right")
    for name in keys[:columns]:
        table.add_column(Text(name), justify="right", no_wrap=True)
    for name, row in zip(queries, weights.tolist(), strict=False):
        table.add_row(Text(name), *(f"{SHADES[min(4, int(w * 5))]}{w:.2f}".replace("0.", ".") for w in row))
    console.print(table)
    if length > rows or size > columns:
        console.print(f"the first {rows} of {length} queries and {columns} of {size} keys", highlight=False)


def most_informative_head(recording: Recording) -> tuple[Call, int]:
    """Return the call and head of lowest entropy, except heads that attend to the first token or the query's own."""
    heads = [(call, head) for call in recording.calls for head in range(call.shape[1])]
    penalties = [row["entropy"] + 3 * row["sink"] + 2 * row.get("own", 0.0) for row in recording.summary()]
    return heads[penalties.index(min(penalties))]


def print_findings(findings: Findings, console: Console) -> None:
    """Print the findings of the attention doctor and what could not be checked, one per line."""
    lines = [f"! {finding}" for finding in findings] or ["The doctor found nothing wrong."]
    console.print("\n".join([*lines, *findings.not_checked_lines()]), markup=False, highlight=False)
