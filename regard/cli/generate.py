"""`regard generate`: ask a trained run."""

import sys
import warnings
from typing import Annotated

import typer

from regard.cli.errors import report_user_errors


def generate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or phrases, dates, language.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to translate, continue or fill in; - reads stdin.")],
    new_tokens: Annotated[int | None, typer.Option(metavar="N", min=0, help="Tokens to write at most.")] = None,
    temperature: Annotated[float, typer.Option(metavar="X", help="0: the likeliest token; above: draw.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(metavar="N", help="Draw among so many.")] = None,
    top_p: Annotated[float | None, typer.Option(metavar="P", help="Draw among those that reach P.")] = None,
    beams: Annotated[int, typer.Option(metavar="N", help="Hypotheses to keep.")] = 1,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Draw the same again.")] = None,
) -> None:
    """Translate, continue or fill in a text with a trained model.

    Three come with regard: phrases and dates translate, language goes on from what you write. A language model
    writes to the terminal as it goes.

    Example: regard generate phrases "The cat sat on the mat"
    """
    with report_user_errors("generate"), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        from regard import training

        loaded = training.load(run)
        asked = sys.stdin.read().strip() if text == "-" else text
        if loaded.task == "language" and beams == 1:
            pieces = loaded.stream(
                asked, new_tokens=new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
            )
            first = next(pieces, "")  # a mistake in what was asked is found here, before anything is written
            typer.echo(asked + first, nl=False)
            try:
                for piece in pieces:
                    typer.echo(piece, nl=False)
                    sys.stdout.flush()
            except KeyboardInterrupt:  # enough has been read
                pass
            typer.echo()
        else:
            said = loaded.generate(
                asked, new_tokens=new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, beams=beams, seed=seed
            )
            typer.echo(asked + said if loaded.task == "language" else said)
        for warning in told:
            typer.echo(f"regard generate: {warning.message}", err=True)
