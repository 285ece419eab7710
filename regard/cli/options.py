"""Declarations of command-line parameters, in short forms of typer's."""

from typing import Any

import typer


def option(metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """Return an option that takes a value, shown as `metavar` in the help; `names` replace the parameter's name."""
    return typer.Option(*names, metavar=metavar, help=text, **settings)


def argument(metavar: str, text: str, **settings: Any) -> Any:
    """Return a positional argument, shown as `metavar` in the help."""
    return typer.Argument(metavar=metavar, help=text, **settings)


def flag(name: str, text: str, **settings: Any) -> Any:
    """Return an option without a value: `--name` sets the parameter to True."""
    return typer.Option(name, help=text, **settings)


def group(name: str, text: str, **settings: Any) -> typer.Typer:
    """Return a group of commands whose help also appears with -h."""
    names = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(name=name, help=text, rich_markup_mode="markdown", context_settings=names, **settings)
