"""`regard lab`: serve the lab and open it in a browser, or write its static edition."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import option


def lab(
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    port: Annotated[int, option("N", "Port; if it is taken, the next free port is used.", min=0, max=65535)] = 8742,
    host: Annotated[
        str, option("ADDRESS", "Address of the server; addresses other than 127.0.0.1 need --no-runner.")
    ] = "127.0.0.1",
    runner: Annotated[bool, typer.Option(help="Run and grade the programs that are written on the page.")] = True,
    network: Annotated[
        Path | None, option("FOLDER", "Folder of the Connect Four network to show, saved by `regard connectx train`.")
    ] = None,
    static: Annotated[
        Path | None,
        option("FOLDER", "Write a static edition with prepared examples to this folder, and serve nothing."),
    ] = None,
) -> None:
    """Open the lab: a local web page that computes attention on your own words, number by number.

    Everything is computed on this machine; nothing is downloaded. The page can only be opened on this machine, with
    the printed address, which contains an access key. Ctrl-C stops the lab.

    With --static, a folder is written instead that any web server can serve and that opens from disk: Start, Trace,
    Geometry, Cost, the cards and Claims with prepared examples, in both languages.

    Example: regard lab --no-browser --port 9000
    """
    if static is not None:
        _write_static_edition(static)
        return
    from regard.lab import Lab, Settings
    from regard.lab.models.board_attention import describe_network
    from regard.lab.server.serve import serve

    def print_address(lab: Lab) -> None:
        if port not in (0, lab.port):
            typer.echo(f"Port {port} is taken; using {lab.port}.", err=True)
        typer.echo(f"The lab is at {lab.url}\nPress Ctrl-C to stop it.")

    if network is not None:
        describe_network(network)  # reports a folder without a network
    settings = Settings(runner=runner, network=network)
    serve(settings, host=host, port=port, browser=browser, on_start=print_address)


def _write_static_edition(folder: Path) -> None:
    from regard.cli.progress_bar import count_bar
    from regard.lab.static_edition import write_static_edition

    with count_bar("computing examples", 1) as advance:
        page = write_static_edition(folder, on_progress=lambda done, of: advance(int(done > 0), total=of))
    typer.echo(f"wrote {page}", err=True)
