"""`regard connectx memorize`: give a network a table of exact opening values."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated

import typer

from regard.cli.connectx.options import Processes
from regard.cli.options import Address, EngineName, argument, option


def memorize(
    network: Annotated[str, argument("NETWORK", "Folder of a run, or the name of a network that comes with regard.")],
    out: Annotated[str, option("FOLDER", "Folder for the network with its opening table.")],
    stones: Annotated[int, option("N", "Put positions with at most this many stones into the table.")] = 10,
    bits: Annotated[int, option("N", "Size of the table: 2^N numbers.")] = 19,
    passes: Annotated[int, option("N", "Number of passes over the positions.")] = 20,
    without: Annotated[str | None, option("FOLDER", "Folder of the standard sets; leave out their positions.")] = None,
    seed: Annotated[int, option("N", "Seed of the order of the positions.")] = 0,
    processes: Processes = 0,
    engine: EngineName = "processes",
    address: Address = None,
    size: Annotated[str, option("ROWSxCOLUMNSxINAROW", "Size of the board and length of a winning line.")] = "6x7x4",
) -> None:
    """Give a trained network an opening table: exact values of positions with few stones.

    Every position with few stones is solved (on 6x7 the shipped opening book contains those with up to 10), and the
    table learns the difference between the network's value and the exact one. The rest of the network does not change.
    Ctrl-C stops the command; the same command continues it, with the network values that are already in the folder.

    Example: regard connectx memorize runs/mine --out runs/mine-with-openings
    """
    from pathlib import Path

    from regard import models
    from regard.cli.connectx.options import read_size
    from regard.cli.progress_bar import count_bar
    from regard.connectx import Solver, load_network
    from regard.connectx import memorize as learn
    from regard.connectx.arena import move_quality as quality
    from regard.parallel import make_engine

    folder = Path(out)
    if (folder / "model.json").exists():
        raise ValueError(f"{folder} contains a model already; choose another folder with --out")
    solver = Solver(*read_size(size))
    excluded = None if without is None else quality.set_bitboards(without)
    net = load_network(network)
    with ExitStack() as closing, ExitStack() as stack:
        workers = closing.enter_context(make_engine(engine, address, processes))
        bars: dict[str, Callable[..., None]] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                stack.close()
                bars[stage] = stack.enter_context(count_bar(stage, total))
            bars[stage](done)

        try:
            result = learn(
                net, solver, stones=stones, bits=bits, passes=passes, without=excluded, seed=seed, folder=folder,
                engine=workers, report=report,
            )  # fmt: skip
        except KeyboardInterrupt:
            stack.close()
            typer.echo("stopped; the same command continues", err=True)
            raise typer.Exit(130) from None
    models.save(result.net, folder)
    for file in folder.glob("values-*.npy"):
        file.unlink()
    typer.echo(f"{result.learnt:,} positions learnt, {result.held_out:,} held out; the network is in {folder}")
    typer.echo("mean squared error of values     learnt   held out")
    for when, error in (("before", result.before), ("after", result.after)):
        learnt, held_out = ("–" if value is None else f"{value:.4f}" for value in error)
        typer.echo(f"{when:<30}{learnt:>9}{held_out:>11}")
