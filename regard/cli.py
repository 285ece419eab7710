"""The command `regard`, one sub-command a room.

Rooms are imported inside the sub-commands, so that help comes at once and nothing loads torch without need. A
mistake in what was typed gives one line on the standard error and exit code 2, never a traceback.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

import regard

app = typer.Typer(
    name="regard",
    help="A workbench for attention in PyTorch: exact, fast, and open to the eye.",
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `regard` with these arguments (those of the process if none) and return its exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show √ shows ?, not a traceback
    try:
        return app(args=arguments, prog_name="regard", standalone_mode=False) or 0
    except Exception as error:
        # What typer finds wrong with the arguments; its own report is a box of several lines.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "regard"
        complaint = " ".join(str(error.format_message()).split())
        print(f"{command}: {complaint} (see {command} --help)", file=sys.stderr)  # noqa: T201
        return 2


@contextmanager
def said_plainly(command: str) -> Iterator[None]:
    """A mistake at a room's door, as one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OSError, MemoryError) as error:
        complaint = error.args[0] if isinstance(error, KeyError) else error
        print(f"regard {command}: {complaint}", file=sys.stderr)  # noqa: T201
        raise typer.Exit(2) from error


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regard {regard.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _regard(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def trace(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="A sentence; Chinese and Japanese are split by character.")
    ],
    context: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Take keys and values from this sentence instead.")
    ] = None,
    heads: Annotated[int, typer.Option(metavar="N", help="Number of heads; must divide d-model.")] = 2,
    d_model: Annotated[int, typer.Option(metavar="N", help="Width of the tokens' vectors.")] = 8,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of vectors and weight matrices.")] = 0,
    mask: Annotated[
        str, typer.Option(metavar="RULE", help='none, causal, window:3, "causal & window(keys=3)", ...')
    ] = "none",
    scale: Annotated[bool, typer.Option(help="Divide the scores by √d_k.")] = True,
    head: Annotated[int, typer.Option(metavar="N", help="Which head to print, from 0.")] = 0,
    step: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Print only this step; may be repeated.")
    ] = None,
    decimals: Annotated[int, typer.Option(metavar="N", min=0, max=9, help="Decimals to print.")] = 3,
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="Rows of a table to print at most.")] = 16,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the trace as JSON; - for standard output.")
    ] = None,
) -> None:
    """Compute attention over a sentence, one step after another, and print every number.

    The tokens' vectors are made from their letters and the weights from the seed, so the same command prints
    the same numbers everywhere. Nothing is trained: look at how it is computed, not at what it attends to.

    Example: regard trace "The cat sat on the mat" --mask causal
    """
    with said_plainly("trace"):
        from regard.attention import embed, print_trace, projections, tokenize, trace_layer

        words = tokenize(text)
        others = None if context is None else tokenize(context)
        if not words or others == []:
            which = "--context" if words else "the text"
            raise ValueError(f'{which} must hold at least one word, got none; try "The cat sat on the mat"')
        traced = trace_layer(
            embed(words, d_model, seed),
            *projections(d_model, seed),
            heads=heads,
            context=None if others is None else embed(others, d_model, seed),
            mask=_read_mask(mask),
            scale=None if scale else 1.0,
            tokens=words,
            context_tokens=others,
            note=f"Vectors of width {d_model} are made from the tokens' letters, weights from seed {seed}. "
            "No positions are added: the same word is the same vector wherever it stands.",
        )
        if json is None:
            print_trace(traced, head=head, steps=step or None, decimals=decimals, rows=rows)
        elif json == "-":
            typer.echo(traced.to_json())
        else:
            Path(json).write_text(traced.to_json() + "\n", encoding="utf-8")
            typer.echo(f"wrote {json}", err=True)


@app.command()
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
            mask=_read_mask(mask), dtype=dtype, backward=backward, cached=cached, materialised=materialised,
            measure=measure, plot=plot, json=json,
        )  # fmt: skip


def _read_mask(text: str) -> object | None:
    if text.strip() == "none":
        return None
    from regard import masks

    return masks.parse(re.sub(r"\b(\w+):(\d+)", r"\1(\2)", text))  # window:3 spares the shell's quotes
