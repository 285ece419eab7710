"""`regard connectx solve`: score every move of a position under perfect play."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.connectx.options import Columns, InARow, Rows
from regard.cli.options import argument, flag, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from regard.connectx import Board, Solver

POLL = 0.5  # seconds between two looks at the result
REPORT_EVERY = 10.0  # seconds between two lines if stderr is not a terminal


def solve(
    moves: Annotated[str, argument("[MOVES]", "Moves so far, columns from 1: 44435.")] = "",
    rows: Rows = 6,
    columns: Columns = 7,
    inarow: InARow = 4,
    book: Annotated[str, option("FILE", 'Opening book: a file, "shipped" or "none".')] = "shipped",
    seconds: Annotated[float | None, option("N", "Stop after N seconds and exit with code 1.")] = None,
    json: Annotated[bool, flag("--json", "Print the result as JSON.")] = False,
) -> None:
    """Score every move of a position under perfect play.

    A win scores 1 plus the number of stones that the winner has left, so a sooner win scores more. A loss is negative,
    a draw 0. "win in 3" means a win with the third stone from now.

    Empty boards that are larger than 6x7, or that have no book, may take hours or more: --seconds limits the time.

    Example: regard connectx solve 44444
    """
    from regard.connectx import Board, Solver

    if seconds is not None and not seconds > 0:
        raise ValueError(f"--seconds must be greater than 0, got {seconds:g}")
    board = Board.from_moves(moves, rows, columns, inarow)
    solver = Solver(rows, columns, inarow, book=None if book == "none" else book)
    text = _within(seconds, lambda: solution_json(solver, board, moves) if json else solution_text(solver, board))
    if text is None:
        typer.echo(f"not solved within {seconds:g} s; allow more time, or give more moves", err=True)
        raise typer.Exit(1)
    typer.echo(text)


def _within(seconds: float | None, solution: "Callable[[], str]") -> str | None:
    """Return the solution, or None if it takes longer than this; show the elapsed time on stderr after a while.

    It is computed in a daemon thread, because the search cannot be interrupted: the main thread reacts to Ctrl-C.
    """
    from concurrent.futures import Future
    from threading import Thread
    from time import monotonic

    from rich.console import Console

    from regard.durations import format_duration

    result: Future[str] = Future()

    def work() -> None:
        try:
            result.set_result(solution())
        except BaseException as error:
            result.set_exception(error)

    Thread(target=work, daemon=True).start()
    console, start, lines = Console(stderr=True), monotonic(), 0
    with console.status("solving …") as status:
        while True:
            elapsed = monotonic() - start
            with suppress(TimeoutError):
                return result.result(POLL if seconds is None else max(0.0, min(POLL, seconds - elapsed)))
            if seconds is not None and monotonic() - start >= seconds:
                return None
            status.update(f"solving, {format_duration(elapsed)} so far …")
            if not console.is_terminal and elapsed > REPORT_EVERY * (lines + 1):
                lines += 1
                console.print(f"solving, {format_duration(elapsed)} so far", highlight=False)


def solution_text(solver: "Solver", board: "Board") -> str:
    """Return the board, the score of each column, and the best line."""
    from regard.connectx.game.board_text import COLUMN_SIGNS, PLAYER_SIGNS

    scores = solver.scores(board)
    lines = [f"  {line}" for line in [*board.text().splitlines(), " ".join(COLUMN_SIGNS[: board.columns])]]
    known = [score for score in scores if score is not None]
    if not known:
        return "\n".join([*lines, "", "The board is full: a draw."])
    best = max(known)
    outcome = solver.outcome_of(best, board.stones)
    lines += ["", f"{PLAYER_SIGNS[board.turn]} to move: {outcome} (score {best:+d})", ""]
    lines.append("  column  score  with best play")
    for column, score in enumerate(scores, 1):
        if score is None:
            lines.append(f"  {column:>6}      -  full")
        else:
            words = solver.outcome_of(score, board.stones) + ("  <- best" if score == best else "")
            lines.append(f"  {column:>6} {f'{score:+d}' if score else '0':>6}  {words}")
    line = " ".join(str(column + 1) for column in solver.line(board))
    return "\n".join([*lines, "", f"best line: {line}"])


def solution_json(solver: "Solver", board: "Board", moves: str) -> str:
    """Return the scores and the best line as JSON; columns are counted from 1, as in move strings."""
    import json

    scores = solver.scores(board)
    known = [score for score in scores if score is not None]
    best = max(known, default=0)
    return json.dumps({
        "moves": moves, "rows": board.rows, "columns": board.columns, "inarow": board.inarow,
        "score": best, "outcome": solver.outcome_of(best, board.stones),
        "best": [column for column, score in enumerate(scores, 1) if score == best] if known else [],
        "scores": scores,
        "outcomes": [None if score is None else solver.outcome_of(score, board.stones) for score in scores],
        "line": [column + 1 for column in solver.line(board)],
    })  # fmt: skip
