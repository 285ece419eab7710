"""`regard connectx`: the game."""

import typer

from .connectx_solver import book, solve

app = typer.Typer(name="connectx", help="Connect Four of any size: perfect play, players, arena.", no_args_is_help=True)
app.command()(solve)
app.command()(book)
