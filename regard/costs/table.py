"""Tables of predicted and measured cost for the terminal."""

from collections.abc import Callable, Sequence
from functools import partial
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

    def row(name: str, text: Callable[[Estimate], str], style: str = "", end: bool = False) -> None:
        table.add_row(name, *map(text, estimates), style=style, end_section=end)

    def part_operations(part: str, x: Estimate) -> str:
        return _with_share(x.operations[part].total, x.total.total)

    def part_bytes(part: str, x: Estimate) -> str:
        return bytes_text(x.bytes[part])

    for part in PARTS:
        if any(x.operations[part].total for x in estimates):
            row(part, partial(part_operations, part), end=part == PARTS[-1])
    if backward:
        row("forward", lambda x: operations_text(x.total.forward))
        row("backward", lambda x: operations_text(x.total.backward))
    row("total", lambda x: operations_text(x.total.total), "bold", end=True)
    row("visible pairs", lambda x: _with_share(x.pairs.visible, x.pairs.all))
    row("computed pairs", lambda x: _with_share(x.pairs.computed, x.pairs.all))
    row("matmuls computed", lambda x: operations_text(x.matmul.total), end=True)
    row("bytes", lambda x: "", "dim")
    for part in estimates[0].bytes:
        if any(x.bytes[part] for x in estimates):
            row(part, partial(part_bytes, part))
    row("peak of the call", lambda x: bytes_text(x.peak), "bold")
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
