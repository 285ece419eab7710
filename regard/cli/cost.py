"""`regard cost`: operations and bytes."""

from typing import Annotated

import typer

from .typed import read_mask, said_plainly


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
    with said_plainly("cost"):
        from regard.cost import run

        run(
            d_model=d_model, heads=heads, kv_heads=kv_heads, seq=seq, batch=batch, queries=queries,
            mask=read_mask(mask), dtype=dtype, backward=backward, cached=cached, materialised=materialised,
            measure=measure, plot=plot, json=json,
        )  # fmt: skip
