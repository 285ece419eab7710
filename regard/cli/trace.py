"""`regard trace`: attention over a sentence, step by step."""

from typing import Annotated

import typer

from regard.cli.errors import read_mask, report_user_errors
from regard.files import write_atomic


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
    save: Annotated[
        str | None,
        typer.Option(metavar="FILE.html", help="Write it as a page to step through, which needs no network."),
    ] = None,
) -> None:
    """Compute attention over a sentence, one step after another, and print every number.

    The tokens' vectors are made from their letters and the weights from the seed, so the same command prints
    the same numbers everywhere. Nothing is trained: look at how it is computed, not at what it attends to.

    Example: regard trace "The cat sat on the mat" --mask causal
    """
    with report_user_errors("trace"):
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
            mask=read_mask(mask),
            scale=None if scale else 1.0,
            tokens=words,
            context_tokens=others,
            note=f"Vectors of width {d_model} are made from the tokens' letters, weights from seed {seed}. "
            "No positions are added: the same word is the same vector wherever it stands.",
        )
        if save is not None:
            from regard.lab import trace_page

            if not save.lower().endswith((".html", ".htm")):
                raise ValueError(f"--save writes a page, FILE.html, got {save!r}")
            rule = read_mask(mask)
            shown = {"text": text, "heads": heads, "d_model": d_model, "seed": seed, "scale": scale, "head": head}
            write_atomic(save, trace_page(traced, mask="none" if rule is None else repr(rule), **shown))
            typer.echo(f"wrote {save}", err=True)
        elif json is None:
            print_trace(traced, head=head, steps=step or None, decimals=decimals, rows=rows)
        elif json == "-":
            typer.echo(traced.to_json())
        else:
            write_atomic(json, traced.to_json() + "\n")
            typer.echo(f"wrote {json}", err=True)
