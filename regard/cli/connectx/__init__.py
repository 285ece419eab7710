"""`regard connectx`: one module for each command."""

import typer

from regard.cli.connectx.arena import arena
from regard.cli.connectx.book import book
from regard.cli.connectx.compare import compare
from regard.cli.connectx.export import export
from regard.cli.connectx.label import label
from regard.cli.connectx.memorize import memorize
from regard.cli.connectx.play import play
from regard.cli.connectx.quality import quality
from regard.cli.connectx.solve import solve
from regard.cli.connectx.train import train
from regard.cli.connectx.validate import validate

app = typer.Typer(
    name="connectx",
    help="Connect Four of any board size: play, train, measure and export players.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (play, solve, arena, quality, label, train, memorize, compare, book, export, validate):
    app.command()(command)
