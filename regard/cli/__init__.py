"""The command `regard`: one file or folder for each sub-command.

`main` builds the command line from the typed signatures of the sub-commands. They import the packages they need when
they run, so that `--help` appears at once and does not load torch. `errors.py` reports exceptions: one line and exit
code 2 for a user's mistake, a traceback for a defect in regard.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

import regard
from regard.cli import errors
from regard.cli.claims import app as claims
from regard.cli.connectx import app as connectx
from regard.cli.cost import cost
from regard.cli.generate import generate
from regard.cli.lab import lab
from regard.cli.learn import learn
from regard.cli.options import add_command, flag, group
from regard.cli.trace import trace
from regard.cli.train import train
from regard.cli.watch import watch

app = group(
    "regard",
    "A workbench for attention in PyTorch: exact, fast and inspectable.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (lab, trace, watch, cost, train, generate):
    add_command(app, command, command.__name__)
app.add_typer(connectx)
app.add_typer(learn)
app.add_typer(claims)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `regard` with these arguments (by default those of the process) and return its exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show √ shows ? instead of failing
    try:
        return app(args=arguments, prog_name="regard", standalone_mode=False) or 0
    except typer.Abort:  # Ctrl-C, in versions of typer that do not return an exit code for it
        return 130
    except Exception as error:
        if not hasattr(error, "format_message"):
            return errors.report_defect(error)
        # typer rejected the arguments; its own report is a box of several lines.
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "regard"
        message = " ".join(str(error.format_message()).split())
        print(f"{command}: {message} (see {command} --help)", file=sys.stderr)  # noqa: T201
        return 2


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"regard {regard.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _regard(
    context: typer.Context,
    version: Annotated[bool, flag("--version", "Print the version.", callback=_print_version, is_eager=True)] = False,
    debug: Annotated[bool, flag("--debug", "Show the Python traceback of every error, also of wrong input.")] = False,
) -> None:
    errors.debug = debug
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
