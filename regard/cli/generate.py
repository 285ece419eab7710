"""`regard generate`: translate, continue or fill in a text with a trained model."""

import sys
import warnings
from typing import Annotated, Any

import typer

from regard.cli.options import argument, flag, option
from regard.cli.train import SAMPLING, draw_alignment, format_candidates
from regard.files import explain_damage


def generate(
    run: Annotated[str, argument("RUN", "Folder of a run, or a shipped run: phrases, dates, language or repeats.")],
    text: Annotated[str, argument("TEXT", "Text to translate, continue or fill in; - reads standard input.")],
    new_tokens: Annotated[int | None, option("N", "Write at most this many tokens.", min=0)] = None,
    temperature: Annotated[
        float | None,
        option("X", "Temperature of the sampling; 0 takes the most probable token. Default: 0.8 for language, else 0."),
    ] = None,
    greedy: Annotated[bool, flag("--greedy", "Take the most probable token each time, like --temperature 0.")] = False,
    top_k: Annotated[
        int | None, option("N", "Sample only from the N most probable tokens. Default: 40 for language, else all.")
    ] = None,
    top_p: Annotated[
        float | None, option("P", "Sample only from the most probable tokens that have probability P together.")
    ] = None,
    beams: Annotated[int, option("N", "Use beam search with this many hypotheses.")] = 1,
    seed: Annotated[int, option("N", "Seed of the sampling.", min=0)] = 0,
    picture: Annotated[str | None, option("FILE", "Draw the alignment of a translation (.png, .svg or .pdf).")] = None,
) -> None:
    """Translate, continue or fill in a text with a trained model.

    Three models come with regard: phrases and dates translate, language continues a text. A language model prints
    its text while it writes, and samples, because the most probable text repeats itself; the same seed gives the same
    text. A model of the task masked fills in each <mask> of the text and prints the most probable candidates.

    Example: regard generate phrases "The cat sat on the mat" --picture alignment.png
    """
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always", UserWarning)
        from regard import training

        model = training.load(run)
        with explain_damage("standard input", "text in UTF-8", "convert it to UTF-8"):
            source = sys.stdin.read().strip() if text == "-" else text
        # The picture is drawn first, so that an error is reported before anything is printed.
        alignment = None if picture is None else model.alignment(source)
        if greedy and temperature:
            raise ValueError(f"--greedy means temperature 0, got --temperature {temperature:g}; leave out one of them")
        samples = model.task == "language" and beams == 1 and not greedy and temperature is None
        temperature = (SAMPLING["temperature"] if samples else 0.0) if temperature is None else temperature
        top_k = SAMPLING["top_k"] if samples and top_k is None and top_p is None else top_k
        options: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        options["new_tokens"] = new_tokens
        if model.task == "language" and beams == 1:
            pieces = model.stream(source, **options)
            first = next(pieces, "")  # reports wrong options before anything is printed
            typer.echo(source + first, nl=False)
            try:
                for piece in pieces:
                    typer.echo(piece, nl=False)
                    sys.stdout.flush()
            except KeyboardInterrupt:  # Ctrl-C ends the text, not the command
                pass
            typer.echo()
        elif model.task == "masked":
            typer.echo(model.generate(source))
            typer.echo(format_candidates(model, source))
        else:
            written = model.generate(source, beams=beams, **options)
            typer.echo(source + written if model.task == "language" else written)
        if alignment is not None and picture is not None:
            typer.echo(f"wrote {draw_alignment(alignment).save(picture)}", err=True)
        for message in dict.fromkeys(str(warning.message) for warning in messages):
            typer.echo(f"regard generate: {message}", err=True)
