"""`regard connectx export`: write a player as a file for Kaggle."""

from typing import Annotated

import typer

from regard.cli.options import argument, option


def export(
    player: Annotated[
        str, argument("PLAYER", "Player: random, greedy, minimax:900ms, mcts:900ms, solver, network, network:RUN:200.")
    ],
    out: Annotated[str, option("FILE", "File to write: a .py, or a .tar.gz that contains main.py.")] = "submission.py",
) -> None:
    """Write a player as one self-contained file that Kaggle accepts.

    Example: regard connectx export minimax:900ms --out submission.py
    """
    from regard.connectx import export as write

    path = write(player, out)
    typer.echo(f"wrote {path}, {path.stat().st_size:,} bytes; check it with: regard connectx validate {path}")
