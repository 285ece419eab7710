"""`regard cost`: operations and bytes."""

import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from regard.cli.errors import read_mask, report_user_errors
from regard.files import write_atomic


def cost(
    d_model: Annotated[int, typer.Option(metavar="N", help="Model width D.")] = 512,
    heads: Annotated[int, typer.Option(metavar="N", help="Number of heads; must divide d-model.")] = 8,
    kv_heads: Annotated[int | None, typer.Option(metavar="N", help="Key/value heads, fewer for grouped heads.")] = None,
    seq: Annotated[str, typer.Option(metavar="N,N,...", help="Sequence lengths, a column each.")] = "512,2048,8192",
    batch: Annotated[int, typer.Option(metavar="N", help="Batch size.")] = 1,
    queries: Annotated[int | None, typer.Option(metavar="N", help="Queries, if not as many as keys.")] = None,
    mask: Annotated[str, typer.Option(metavar="RULE", help='none, causal, "window(keys=256)", ...')] = "none",
    dtype: Annotated[str, typer.Option(metavar="NAME", help="float32, float64, bfloat16, float16.")] = "float32",
    backward: Annotated[bool, typer.Option("--backward", help="Count the backward pass as well.")] = False,
    cached: Annotated[bool, typer.Option("--cached", help="Decode one token with a KV cache.")] = False,
    materialised: Annotated[bool, typer.Option("--materialised", help="Write the weights out.")] = False,
    measure: Annotated[bool, typer.Option("--measure", help="Run it, and compare.")] = False,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it as .png, .svg or .pdf.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write JSON; - for standard output.")] = None,
) -> None:
    """Count what attention costs: operations and bytes by part, predicted and measured.

    Example: regard cost --mask "window(keys=256)" --backward --measure
    """
    with report_user_errors("cost"):
        _run(
            d_model=d_model, heads=heads, kv_heads=kv_heads, seq=seq, batch=batch, queries=queries,
            mask=read_mask(mask), dtype=dtype, backward=backward, cached=cached, materialised=materialised,
            measure=measure, plot=plot, json=json,
        )  # fmt: skip


def _run(*, seq: str, measure: bool, plot: str | None, json: str | None, **options: Any) -> None:
    """Print the cost as a table; measure it, draw it or write it as JSON where asked."""
    from regard.costs import cost as predict

    found = predict(seq=read_lengths(seq), **options)
    measured = found.measure() if measure else None
    if plot is not None:
        found.plot(plot)
        _say(f"wrote {plot}")
    if json == "-":
        sys.stdout.write((measured or found).to_json() + "\n")
        return
    if json is not None:
        write_atomic(json, (measured or found).to_json() + "\n")
        _say(f"wrote {json}")
    console = Console()
    console.print(found.table())
    if measured is not None:
        console.print(measured.table())


def read_lengths(text: str) -> list[int]:
    """Lengths from text.

    >>> read_lengths("512, 2048")
    [512, 2048]
    """
    try:
        return [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--seq takes whole numbers with commas between, such as 512,2048, got {text!r}") from None


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
