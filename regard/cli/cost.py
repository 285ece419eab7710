"""`regard cost`: operations and bytes of attention."""

from typing import Annotated

import typer
from rich.console import Console

from regard.cli.errors import read_mask
from regard.cli.options import flag, option, write_text


def cost(
    d_model: Annotated[int, option("N", "Model width D.")] = 512,
    heads: Annotated[int, option("N", "Number of heads; must divide d-model.")] = 8,
    kv_heads: Annotated[int | None, option("N", "Number of key/value heads; by default as many as heads.")] = None,
    seq: Annotated[str, option("N,N,...", "Sequence lengths; the table has one column for each.")] = "512,2048,8192",
    batch: Annotated[int, option("N", "Batch size.")] = 1,
    queries: Annotated[int | None, option("N", "Number of queries; by default as many as keys.")] = None,
    mask: Annotated[str, option("RULE", 'Mask: none, causal, "window(keys=256)", ...')] = "none",
    dtype: Annotated[str, option("NAME", "Number type: float32, float64, bfloat16 or float16.")] = "float32",
    backward: Annotated[bool, flag("--backward", "Count the backward pass too.")] = False,
    cached: Annotated[bool, flag("--cached", "Decode one token with a KV cache.")] = False,
    materialised: Annotated[bool, flag("--materialised", "Store the attention weights instead of fusing.")] = False,
    measure: Annotated[bool, flag("--measure", "Run the layer too, and compare it with the prediction.")] = False,
    plot: Annotated[str | None, option("FILE", "Draw the cost into a .png, .svg or .pdf file.")] = None,
    json: Annotated[str | None, option("FILE", "Write all numbers as JSON; - for standard output.")] = None,
) -> None:
    """Predict what attention costs: operations and bytes by part.

    Example: regard cost --mask "window(keys=256)" --backward --measure
    """
    from regard.costs import cost as predict

    prediction = predict(
        d_model=d_model, heads=heads, kv_heads=kv_heads, seq=parse_lengths(seq), batch=batch, queries=queries,
        mask=read_mask(mask), dtype=dtype, backward=backward, cached=cached, materialised=materialised,
    )  # fmt: skip
    measured = prediction.measure() if measure else None
    if plot is not None:
        prediction.plot(plot)
        typer.echo(f"wrote {plot}", err=True)
    write_text((measured or prediction).to_json(), json)
    if json != "-":
        Console().print(prediction.table())
        if measured is not None:
            Console().print(measured.table())


def parse_lengths(text: str) -> list[int]:
    """Return the lengths of a comma-separated list.

    >>> parse_lengths("512, 2048")
    [512, 2048]
    """
    try:
        return [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--seq expects whole numbers separated by commas, such as 512,2048, got {text!r}") from None
