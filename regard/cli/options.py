"""Short forms of typer's declarations of command-line parameters, and the output of options such as `--json FILE`."""

from collections.abc import Callable
from os import PathLike
from typing import Annotated, Any

import typer

from regard.cli.errors import report_user_errors
from regard.files import write_atomic


def option(metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """Return an option that takes a value, shown as `metavar` in the help; `names` replace the parameter's name."""
    return typer.Option(*names, metavar=metavar, help=text, **settings)


def argument(metavar: str, text: str, **settings: Any) -> Any:
    """Return a positional argument, shown as `metavar` in the help."""
    return typer.Argument(metavar=metavar, help=text, **settings)


def flag(name: str, text: str, **settings: Any) -> Any:
    """Return an option without a value: `--name` sets the parameter to True."""
    return typer.Option(name, help=text, **settings)


EngineName = Annotated[str, option("NAME", "Where the work runs: processes of this machine, or ray.", "--engine")]
Address = Annotated[
    str | None,
    option("HOST:PORT", 'Ray cluster; "auto" is the one on this machine. Without it, Ray runs here only.', "--address"),
]


def group(name: str, text: str, **settings: Any) -> typer.Typer:
    """Return a group of commands whose help also appears with -h."""
    names = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(name=name, help=text, rich_markup_mode="markdown", context_settings=names, **settings)


def add_command(app: typer.Typer, function: Callable[..., None], path: str) -> None:
    """Add a command to a group; `path` is what follows `regard` on the command line and in reports of mistakes."""
    app.command(path.rpartition(" ")[2])(report_user_errors(path)(function))


def write_text(text: str, file: str | PathLike[str] | None, end: str = "\n") -> None:
    """Write text to a file and report it on stderr. The file "-" means stdout; None means that nothing is written."""
    if file == "-":
        typer.echo(text + end, nl=False)
    elif file is not None:
        write_atomic(file, text + end)
        typer.echo(f"wrote {file}", err=True)
