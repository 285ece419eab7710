"""`regard connectx solve` and `regard connectx book`: perfect play, and the opening book it starts from."""

from typing import Annotated

import typer

from regard.cli.errors import report_user_errors

Rows = Annotated[int, typer.Option(metavar="N", help="Rows of the board.")]
Columns = Annotated[int, typer.Option(metavar="N", help="Columns of the board.")]
InARow = Annotated[int, typer.Option(metavar="N", help="Stones in a line that win.")]


def solve(
    moves: Annotated[str, typer.Argument(metavar="[MOVES]", help="Columns from 1, in the order played: 44435.")] = "",
    rows: Rows = 6,
    columns: Columns = 7,
    inarow: InARow = 4,
    book: Annotated[str, typer.Option(metavar="FILE", help='A book, "shipped" or "none".')] = "shipped",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score every move of a position under perfect play.

    A win scores 1 plus the stones that the winner has left, so a sooner win scores more; a loss is negative, a draw 0.
    "win in 3" means with the third stone from now.

    Example: regard connectx solve 44444
    """
    with report_user_errors("connectx solve"):
        from regard.connectx import Solver, position_of, solved_json, solved_text

        board = position_of(moves, rows, columns, inarow)
        solver = Solver(rows, columns, inarow, book=None if book == "none" else book)
        typer.echo(solved_json(solver, board, moves) if json else solved_text(solver, board))


def book(
    stones: Annotated[
        list[int], typer.Option(metavar="N", help="Solve all positions with so many stones; may be given again.")
    ],
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Then write the book to this file.")] = None,
    rows: Rows = 6,
    columns: Columns = 7,
    inarow: InARow = 4,
    folder: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where to keep what is solved; the user's cache by default.")
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads; by default one a core.")] = None,
    table_bits: Annotated[int, typer.Option(metavar="N", help="Their common table: 16 bytes × 2^N.")] = 25,
    minutes: Annotated[float | None, typer.Option(metavar="N", help="Stop after so many minutes.")] = None,
) -> None:
    """Make an opening book, or go on making it.

    Every position with the given number of stones is solved, in the order of the game tree. Stop it with Ctrl-C and
    start it again whenever you like: nothing is solved twice. The book may hold several such layers, and parts of
    them. Made in one go, from few stones to many, each profits much from the one before; so does a large table: give
    it half the memory. On 6×7 a core takes a quarter of an hour for 4 stones, and about three hours for 8, or for 10.

    Example: regard connectx book --stones 4 --stones 5 --stones 6 --table-bits 28 --out my.book
    """
    with report_user_errors("connectx book"):
        from regard.connectx import make_book
        from regard.connectx.arena import round_robin as arena

        make_book(
            stones, out=out, rows=rows, columns=columns, inarow=inarow, folder=folder, threads=threads or arena.cores(),
            table_bits=table_bits, minutes=minutes,
        )  # fmt: skip
