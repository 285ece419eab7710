"""The command `regard`, one sub-command a room, one file each.

Rooms are imported inside the sub-commands, so that help comes at once and nothing loads torch without need. A
mistake in what was typed gives one line on the standard error and exit code 2, never a traceback.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

import regard
from regard.cli.claims import app as claims
from regard.cli.connectx import app as connectx
from regard.cli.cost import cost
from regard.cli.generate import generate
from regard.cli.lab import lab
from regard.cli.learn import learn
from regard.cli.trace import trace
from regard.cli.train import train
from regard.cli.watch import watch

app = typer.Typer(
    name="regard",
    help="A workbench for attention in PyTorch: exact, fast, and open to the eye.",
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (lab, trace, watch, cost, train, generate):
    app.command()(command)
app.add_typer(connectx)
app.add_typer(learn)
app.add_typer(claims)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `regard` with these arguments (those of the process if none) and return its exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show √ shows ?, not a traceback
    try:
        return app(args=arguments, prog_name="regard", standalone_mode=False) or 0
    except typer.Abort:  # Ctrl-C, in versions of typer that do not turn it into this code themselves
        return 130
    except Exception as error:
        # What typer finds wrong with the arguments; its own report is a box of several lines.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "regard"
        complaint = " ".join(str(error.format_message()).split())
        print(f"{command}: {complaint} (see {command} --help)", file=sys.stderr)  # noqa: T201
        return 2


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
