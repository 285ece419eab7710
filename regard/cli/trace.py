"""`regard trace`: print attention over a sentence, step by step."""

from typing import Annotated

import typer

from regard.cli.errors import read_mask
from regard.cli.options import argument, option, write_text


def trace(
    text: Annotated[str, argument("TEXT", "A sentence; Chinese and Japanese text is split by character.")],
    context: Annotated[str | None, option("TEXT", "Take keys and values from this sentence (cross-attention).")] = None,
    heads: Annotated[int, option("N", "Number of heads; it must divide d-model.")] = 2,
    d_model: Annotated[int, option("N", "Width of the token vectors.")] = 8,
    seed: Annotated[int, option("N", "Seed of the token vectors and weight matrices.", min=0)] = 0,
    mask: Annotated[str, option("RULE", 'Mask: none, causal, window:3, "causal & window(keys=3)", ...')] = "none",
    scale: Annotated[bool, typer.Option(help="Divide the scores by √d_k.")] = True,
    head: Annotated[int, option("N", "Head to print, counted from 0.")] = 0,
    step: Annotated[list[str] | None, option("NAME", "Print only this step; may be repeated.")] = None,
    decimals: Annotated[int, option("N", "Number of decimals to print.", min=0, max=9)] = 3,
    rows: Annotated[int, option("N", "Maximum number of rows to print per table.", min=1)] = 16,
    json: Annotated[str | None, option("FILE", "Write the trace to this file as JSON; - for standard output.")] = None,
    save: Annotated[str | None, option("FILE.html", "Write an interactive HTML page that works offline.")] = None,
) -> None:
    """Compute attention over a sentence step by step and print every number.

    Token vectors are computed from the tokens' letters and weights from the seed, so the same command prints the same
    numbers on every machine. Nothing is trained: the trace shows how attention is computed.

    Example: regard trace "The cat sat on the mat" --mask causal
    """
    from regard.attention import embed, print_trace, projections, tokenize, trace_layer

    words = tokenize(text)
    others = None if context is None else tokenize(context)
    if not words or others == []:
        which = "--context" if words else "the text"
        raise ValueError(f'{which} must contain at least one word, got none; try "The cat sat on the mat"')
    result = trace_layer(
        embed(words, d_model, seed), *projections(d_model, seed), heads=heads,
        context=None if others is None else embed(others, d_model, seed), mask=read_mask(mask),
        scale=None if scale else 1.0, tokens=words, context_tokens=others,
        note=f"Vectors of width {d_model} are computed from the tokens' letters, weights from seed {seed}. "
        "No positions are added: a word has the same vector at every position.",
    )  # fmt: skip
    if save is not None:
        from regard.lab import trace_page

        if not save.lower().endswith((".html", ".htm")):
            raise ValueError(f"--save writes a page, FILE.html, got {save!r}")
        rule = read_mask(mask)
        settings = {"text": text, "heads": heads, "d_model": d_model, "seed": seed, "scale": scale, "head": head}
        write_text(trace_page(result, mask="none" if rule is None else repr(rule), **settings), save, end="")
    elif json is None:
        print_trace(result, head=head, steps=step or None, decimals=decimals, rows=rows)
    else:
        write_text(result.to_json(), json)
