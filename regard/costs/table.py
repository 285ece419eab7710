"""Tables of predicted and measured cost for the terminal."""

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Literal

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

from regard.costs.estimate import Estimate
from regard.costs.measurement import Measurement
from regard.costs.operations import PARTS
from regard.costs.units import bytes_text, operations_text, seconds_text


def to_text(table: RenderableType, width: int = 80) -> str:
    """Return the table as plain text."""
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def cost_table(estimates: Sequence[Estimate], title: str, *, backward: bool) -> Table:
    """Return a table of operations, pairs and bytes by part, with one column per sequence length."""
    table = _empty_table(title)
    table.add_column("operations", no_wrap=True)
    for estimate in estimates:
        table.add_column(f"S = {estimate.seq:,}", justify="right", no_wrap=True)

    def row(name: str, texts: Iterable[str], style: str = "", end: bool = False) -> None:
        table.add_row(name, *texts, style=style, end_section=end)

    for part in PARTS:
        if any(x.operations[part].total for x in estimates):
            row(part, (_with_share(x.operations[part].total, x.total.total) for x in estimates), end=part == PARTS[-1])
    if backward:
        row("forward", (operations_text(x.total.forward) for x in estimates))
        row("backward", (operations_text(x.total.backward) for x in estimates))
    row("total", (operations_text(x.total.total) for x in estimates), "bold", end=True)
    row("visible pairs", (_with_share(x.pairs.visible, x.pairs.all) for x in estimates))
    row("computed pairs", (_with_share(x.pairs.computed, x.pairs.all) for x in estimates))
    row("matmuls computed", (operations_text(x.matmul.total) for x in estimates), end=True)
    row("bytes", (), "dim")
    for part in estimates[0].bytes:
        if any(x.bytes[part] for x in estimates):
            row(part, (bytes_text(x.bytes[part]) for x in estimates))
    row("peak of the call", (bytes_text(x.peak) for x in estimates), "bold")
    return table


def measurement_table(measurements: Sequence[Measurement], title: str) -> Table:
    """Return a table of predicted and measured operations, peak bytes and time, for each sequence length."""
    table = _empty_table(title)
    for column in ("S", "", "predicted", "measured", "pred. / meas."):
        justify: Literal["left", "right"] = "right" if column else "left"
        table.add_column(column, justify=justify, no_wrap=True)
    for x in measurements:
        ratio = "exact" if x.predicted_operations == x.operations else f"{x.operations_ratio:.4f}"
        operations = operations_text(x.predicted_operations), operations_text(x.operations)
        table.add_row(f"{x.seq:,}", "matmul operations", *operations, ratio)
        table.add_row("", "peak bytes", bytes_text(x.predicted_peak), bytes_text(x.peak), f"{x.peak_ratio:.3f}")
        table.add_row("", "time", "", seconds_text(x.seconds), f"{operations_text(x.rate)}op/s", end_section=True)
    return table


def _empty_table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _with_share(count: int, total: int) -> str:
    return f"{operations_text(count)}  {count / total:4.0%}"
