"""`regard connectx`: one module for each command."""

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
from regard.cli.options import add_command, group
from regard.extras import games_installed

app = group(
    "connectx", "Connect Four of any board size: play, train, measure and export players.", no_args_is_help=True
)

for command in (play, solve, arena, quality, label, train, memorize, compare, book, export, validate):
    add_command(app, games_installed()(command), f"connectx {command.__name__}")
