"""`regard connectx label`: make positions with exact scores for training."""

import os
from typing import Annotated

import typer

from regard.cli.connectx.options import Processes, Size, read_size
from regard.cli.options import Address, EngineName, argument, option


def label(
    folder: Annotated[str, argument("FOLDER", "Folder of the labels; new labels are added to it.")],
    positions: Annotated[int | None, option("N", "Stop after N positions.")] = None,
    minutes: Annotated[float | None, option("N", "Stop after N minutes.")] = None,
    network: Annotated[
        str | None, option("RUN", "Folder of a network that plays half of the games; it may be in training.")
    ] = None,
    book: Annotated[str, option("FILE", 'Book: a file, a folder of `regard connectx book`, or "shipped".')] = "shipped",
    fewest: Annotated[int, option("N", "Smallest number of stones of a labelled position.")] = 10,
    early: Annotated[
        float | None, option("X", "Share of games that begin with under a third of the squares occupied; default 0.1.")
    ] = None,
    middle: Annotated[
        float | None, option("X", "Share of games that begin with one to two thirds occupied; default 0.5.")
    ] = None,
    most: Annotated[
        int | None, option("N", "Begin all games with --fewest to N stones, instead of --early and --middle.")
    ] = None,
    follow: Annotated[
        int, option("N", "Do not play games with --early and --middle starts: label all positions up to N moves later.")
    ] = 0,
    openings: Annotated[int | None, option("N", "Play no games; label all positions with at most N stones.")] = None,
    processes: Processes = 0,
    engine: EngineName = "processes",
    address: Address = None,
    table_bits: Annotated[int, option("N", "Size of the solver's table in each process: 16 bytes × 2^N.")] = 23,
    seed: Annotated[int, option("N", "Random seed of the games.")] = 0,
    size: Size = "6x7x4",
) -> None:
    """Label positions with the exact score of every move, for `regard connectx train --method distill`.

    The games mix random and perfect moves. With --network, the network plays half of the games, and the positions whose
    values it is least certain of are labelled. Every finished task is stored at once. Ctrl-C stops the command, and the
    same command continues, also after it was killed. With --engine ray, the machines of a Ray cluster do the work.

    The solver needs seconds for each opening that the book does not contain; the shipped book covers --openings 9.

    Example: regard connectx label labels --minutes 30
    """
    from regard.cli.progress_bar import count_bar, time_bar
    from regard.connectx import Book, LabelOptions, Solver, label_openings, load_book
    from regard.connectx import label as make_labels
    from regard.connectx.solver.build_book import load_layers
    from regard.parallel import make_engine

    board_size = read_size(size)
    shares = {name: share for name, share in (("early", early), ("middle", middle)) if share is not None}
    if shares and most is not None:
        raise ValueError(f"--most cannot be combined with --{' and --'.join(shares)}; leave one of them out")
    options = LabelOptions(board_size, fewest=fewest, most=most, follow=follow, network=network, seed=seed, **shares)
    loaded_book: Book | None = None
    if os.path.isdir(book):
        loaded_book = load_layers(book, *board_size)
    elif book != "shipped" or board_size == (6, 7, 4):
        loaded_book = load_book(None if book == "shipped" else book)
    if openings is not None and (positions is not None or minutes is not None or network is not None):
        raise ValueError("--openings labels every position; leave out --positions, --minutes and --network")
    bar = time_bar("labelling", minutes) if minutes is not None else count_bar("labelling", positions or 0)
    count = 0
    stopped = False
    try:
        with make_engine(engine, address, processes) as workers, bar as advance:

            def report(new: int, *total: int) -> None:
                nonlocal count
                count += new
                advance(new, *total)

            if openings is not None:
                solver = Solver(*board_size, book=loaded_book, table_bits=table_bits)
                label_openings(folder, openings, solver, engine=workers, report=report)
            else:
                make_labels(
                    folder, options, positions=positions, minutes=minutes, engine=workers, book=loaded_book,
                    table_bits=table_bits, report=report,
                )  # fmt: skip
    except KeyboardInterrupt:
        stopped = True
    typer.echo(f"{count:,} positions labelled in {folder}", err=True)
    if stopped:
        typer.echo("stopped; the same command continues", err=True)
        raise typer.Exit(130)
