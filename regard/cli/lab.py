"""`regard lab`: the local page."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.errors import report_user_errors

if TYPE_CHECKING:
    from regard.lab import Lab


def lab(
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port to serve at; the next free one when it is taken.")
    ] = 8742,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to serve at; any but 127.0.0.1 needs --no-runner.")
    ] = "127.0.0.1",
    runner: Annotated[bool, typer.Option(help="Run and grade the programs you write on the page.")] = True,
    network: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Connect Four network to show, as `regard connectx train` saves it."),
    ] = None,
) -> None:
    """Open the lab: a page on this machine where attention is computed on your own words, number by number.

    Everything is computed here and nothing is fetched from elsewhere. The page answers this machine alone, and only
    who has the address printed below: it holds the key of this launch. Ctrl-C ends it.

    Example: regard lab --no-browser --port 9000
    """
    with report_user_errors("lab"):
        from regard.lab import Settings, serve

        serve(
            Settings(runner=runner, network=network),
            host=host,
            port=port,
            browser=browser,
            on_start=_print_address(port),
        )


def _print_address(asked: int) -> Callable[["Lab"], None]:
    def told(lab: "Lab") -> None:
        if asked not in (0, lab.port):
            typer.echo(f"Port {asked} is taken; using {lab.port}.", err=True)
        typer.echo(f"The lab is at {lab.url}")
        typer.echo("Ctrl-C ends it.")

    return told
