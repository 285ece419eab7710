"""`regard connectx solve`: score every move of a position under perfect play."""

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.connectx.options import Columns, InARow, Rows
from regard.cli.options import argument, flag, option

if TYPE_CHECKING:
    from regard.connectx import Board, Solver


def solve(
    moves: Annotated[str, argument("[MOVES]", "Moves so far, columns from 1: 44435.")] = "",
    rows: Rows = 6,
    columns: Columns = 7,
    inarow: InARow = 4,
    book: Annotated[str, option("FILE", 'Opening book: a file, "shipped" or "none".')] = "shipped",
    json: Annotated[bool, flag("--json", "Print the result as JSON.")] = False,
) -> None:
    """Score every move of a position under perfect play.

    A win scores 1 plus the number of stones that the winner has left, so a sooner win scores more. A loss is negative,
    a draw 0. "win in 3" means a win with the third stone from now.

    Example: regard connectx solve 44444
    """
    from regard.connectx import Board, Solver

    solver = Solver(rows, columns, inarow, book=None if book == "none" else book)
    board = Board.from_moves(moves, rows, columns, inarow)
    typer.echo(solution_json(solver, board, moves) if json else solution_text(solver, board))


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
