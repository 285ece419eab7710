"""`regard connectx memorize`: what openings are worth, learnt by heart."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated

import typer

from regard.cli.errors import report_user_errors


def memorize(
    network: Annotated[str, typer.Argument(metavar="NETWORK", help="A run's folder, or a network that is here.")],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where the network with its memory is written.")],
    stones: Annotated[int, typer.Option(metavar="N", help="Positions with at most so many stones.")] = 10,
    bits: Annotated[int, typer.Option(metavar="N", help="The memory has 2^N numbers.")] = 19,
    passes: Annotated[int, typer.Option(metavar="N", help="How often each position is learnt.")] = 20,
    without: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Standard sets, whose positions are left out.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the order in which positions are learnt.")] = 0,
    processes: Annotated[int, typer.Option(metavar="N", help="0: one for each core.")] = 0,
    size: Annotated[str, typer.Option(metavar="ROWSxCOLUMNSxINAROW", help="The board.")] = "6x7x4",
) -> None:
    """Give a trained network a memory of what openings are worth.

    Every position with few stones is solved (on 6x7 the shipped book knows those with up to 10) and shown to the
    network; what its value misses goes into a table. The rest of the network stays as it is. Stop it with Ctrl-C and
    start it again whenever you like: what the network was asked is kept in the folder until all is done.

    Example: regard connectx memorize runs/mine --out runs/mine-by-heart
    """
    with report_user_errors("connectx memorize"):
        from pathlib import Path

        from regard import models
        from regard.cli.connectx.options import read_size
        from regard.cli.progress_bar import count_bar
        from regard.connectx import Solver, load_network
        from regard.connectx import memorize as learn
        from regard.connectx.arena import move_quality as quality
        from regard.cpu_count import available_cores

        folder = Path(out)
        if (folder / "model.json").exists():
            raise ValueError(f"{folder} holds a model already; write elsewhere with --out")
        solver = Solver(*read_size(size))
        left_out = None if without is None else quality.set_bitboards(without)
        net = load_network(network)
        with ExitStack() as stack:
            bars: dict[str, Callable[..., None]] = {}

            def report(what: str, done: int, total: int) -> None:
                if what not in bars:
                    stack.close()
                    bars[what] = stack.enter_context(count_bar(what, total))
                bars[what](done)

            try:
                found = learn(
                    net, solver, stones=stones, bits=bits, passes=passes, without=left_out, seed=seed, kept=folder,
                    processes=processes or available_cores(), report=report,
                )  # fmt: skip
            except KeyboardInterrupt:
                stack.close()
                typer.echo("stopped; the same command goes on from there", err=True)
                raise typer.Exit(130) from None
        models.save(found.net, folder)
        for file in folder.glob("values-*.npy"):
            file.unlink()
        typer.echo(f"{found.learnt:,} positions learnt, {found.held_out:,} held out; the network is in {folder}")
        typer.echo("mean squared error of values     learnt   held out")
        for when, error in (("before", found.before), ("after", found.after)):
            learnt, held_out = ("–" if one is None else f"{one:.4f}" for one in error)
            typer.echo(f"{when:<30}{learnt:>9}{held_out:>11}")
