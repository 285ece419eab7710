"""`regard connectx label`: positions with exact scores, to learn from."""

import os
from typing import Annotated

import typer

from regard.cli.errors import report_user_errors


def label(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where the labels are kept; it is added to.")],
    positions: Annotated[int | None, typer.Option(metavar="N", help="How many to label, or")] = None,
    minutes: Annotated[float | None, typer.Option(metavar="N", help="for how long.")] = None,
    network: Annotated[
        str | None, typer.Option(metavar="RUN", help="Half of the games are played by this network, as it learns.")
    ] = None,
    book: Annotated[
        str, typer.Option(metavar="FILE", help='Of openings: a file, a folder of `regard connectx book`, "shipped".')
    ] = "shipped",
    fewest: Annotated[int, typer.Option(metavar="N", help="Games are labelled from so many stones on.")] = 10,
    early: Annotated[
        float | None, typer.Option(metavar="X", help="Share of games from the first third of the board; else 0.1.")
    ] = None,
    middle: Annotated[
        float | None, typer.Option(metavar="X", help="Share of games from the second third; else 0.5.")
    ] = None,
    most: Annotated[
        int | None, typer.Option(metavar="N", help="Instead of these shares: games begin with --fewest to N stones.")
    ] = None,
    follow: Annotated[
        int, typer.Option(metavar="N", help="Of the first two thirds: all that follows a position within N moves.")
    ] = 0,
    openings: Annotated[
        int | None, typer.Option(metavar="N", help="Instead of games: every position with at most so many stones.")
    ] = None,
    processes: Annotated[int, typer.Option(metavar="N", help="0: one for each core.")] = 0,
    table_bits: Annotated[int, typer.Option(metavar="N", help="Table of each process: 16 bytes × 2^N.")] = 23,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the games.")] = 0,
    size: Annotated[str, typer.Option(metavar="ROWSxCOLUMNSxINAROW", help="The board.")] = "6x7x4",
) -> None:
    """Label positions with the exact score of every move, for `regard connectx train --method distill`.

    The games mix random and perfect moves and, with --network, the network's own, there where it is least sure. What
    is labelled is kept every minute; stop it with Ctrl-C and start it again whenever you like.

    Openings take the solver seconds each, unless the book knows them: the shipped one is enough for --openings 9.

    Example: regard connectx label labels --minutes 30
    """
    with report_user_errors("connectx label"):
        from regard.cli.connectx import read_size
        from regard.cli.progress_bar import count_bar, time_bar
        from regard.connectx import Book, Draw, Solver, label_openings, load_book
        from regard.connectx import kept as kept_book
        from regard.connectx import label as make
        from regard.connectx.arena import round_robin as arena

        rows, columns, inarow = read_size(size)
        shares = {name: share for name, share in (("early", early), ("middle", middle)) if share is not None}
        if shares and most is not None:
            raise ValueError(f"--most says where all games begin: leave --{' and --'.join(shares)} out, or --most")
        draw = Draw(
            (rows, columns, inarow), fewest=fewest, most=most, follow=follow, network=network, seed=seed, **shares
        )  # fmt: skip
        known: Book | None = None
        if os.path.isdir(book):
            known = kept_book(book, rows, columns, inarow)
        elif book != "shipped" or (rows, columns, inarow) == (6, 7, 4):
            known = load_book(None if book == "shipped" else book)
        if openings is not None and (positions is not None or minutes is not None or network is not None):
            raise ValueError("--openings labels every position; leave --positions, --minutes and --network out")
        bar = time_bar("labelling", minutes) if minutes is not None else count_bar("labelling", positions or 0)
        count = 0
        stopped = False
        try:
            with bar as advance:

                def report(*told: int) -> None:
                    nonlocal count
                    count += told[0]
                    advance(*told)  # of openings the number in all is told, too

                if openings is not None:
                    solver = Solver(rows, columns, inarow, book=known, table_bits=table_bits)
                    label_openings(folder, openings, solver, report=report)
                else:
                    make(
                        folder, draw, positions=positions, minutes=minutes, processes=processes or arena.cores(),
                        book=known, table_bits=table_bits, report=report,
                    )  # fmt: skip
        except KeyboardInterrupt:
            stopped = True
        typer.echo(f"{count:,} positions labelled; they are in {folder}", err=True)
        if stopped:
            typer.echo("stopped; the same command goes on from there", err=True)
            raise typer.Exit(130)
