"""`regard connectx validate`: play a submission in kaggle-environments."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.connectx.options import JsonFile, write_json
from regard.cli.options import argument, option
from regard.cli.progress_bar import count_bar


def validate(
    file: Annotated[str, argument("FILE", "Submission to validate: a .py or .tar.gz.")],
    games: Annotated[int, option("N", "Number of games for each opponent, side and board.")] = 1,
    json: JsonFile = None,
) -> None:
    """Play a submission in kaggle-environments, report each match as Kaggle does, and exit with code 1 if one fails.

    It plays against itself, random and negamax, with both sides, on 6×7×4 and on a smaller board. Moves that an
    exported player did not choose in time are counted as "fallback". Every move of an exported solver on 6×7×4 is
    graded, and a move that loses value is a failure.

    Example: regard connectx validate submission.py
    """
    from dataclasses import asdict

    from rich.console import Console

    from regard.connectx.arena import report
    from regard.connectx.kaggle import validation

    episodes = validation.plan(games)
    matches = []
    with count_bar("playing", len(episodes)) as advance:
        for match in validation.validate(file, episodes):
            matches.append(match)
            advance()
    if json != "-":
        Console().print(report.validation_table(Path(file).name, matches))
    failures = sum(not match.valid or bool(match.errors) for match in matches)
    fallback = sum(match.fallback for match in matches)
    write_json({"file": file, "valid": not failures, "matches": [asdict(match) for match in matches]}, json)
    if fallback:
        typer.echo(f"{fallback} moves were played by the fallback, because the player had no answer in time", err=True)
    if failures:
        typer.echo(f"failed in {failures} of {len(matches)} matches", err=True)
        raise typer.Exit(1)
    typer.echo(f"valid in all {len(matches)} matches", err=True)
