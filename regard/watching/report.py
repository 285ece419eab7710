"""What was seen, printed: heads in one table, the weights of one head as numbers."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.watching.call import Call
from regard.watching.doctor import Finding
from regard.watching.recording import Seen

SHADES = " ░▒▓█"  # readable without colour
MOST_TOKENS = 24


def print_seen(seen: Seen, console: Console) -> None:
    """The calls in a line, then every head in a row."""
    calls = seen.calls
    shapes = list(dict.fromkeys(f"{c.shape[1]} heads, {c.shape[2]} queries × {c.shape[3]} keys" for c in calls))
    kernels = ", ".join(dict.fromkeys(call.kernel for call in calls))
    console.print(
        f"{type(seen.model).__name__}: {len(calls)} attention call{'s' * (len(calls) > 1)} of {'; '.join(shapes)}"
        f" (kernel: {kernels})\n",
        highlight=False,
    )
    console.print(seen.table())


def print_head(
    call: Call, head: int, queries: Sequence[str] | None, keys: Sequence[str] | None, console: Console
) -> None:
    """The weights of one head, a row a query; tokens without a name are numbered."""
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


def telling_head(seen: Seen) -> tuple[Call, int]:
    """The head that says most at a glance: sharp, but not all on the first token or on the query's own."""

    def plain(row: dict[str, float]) -> float:
        return row["entropy"] + 3 * row["sink"] + 2 * row.get("own", 0.0)

    rows = seen.summary()
    place = min(range(len(rows)), key=lambda i: plain(rows[i]))
    for call in seen.calls:
        if place < call.shape[1]:
            return call, place
        place -= call.shape[1]
    raise AssertionError("every row of the summary belongs to a call")


def print_findings(findings: Iterable[Finding], console: Console) -> None:
    """What the doctor found, a line each."""
    found = list(findings)
    for finding in found:
        console.print(Text(f"! {finding}"), highlight=False)
    if not found:
        console.print("The doctor found nothing wrong.", highlight=False)
