"""A solved position in words: what `regard connectx solve` prints."""

import json

from regard.connectx.solver.solver import Position, Solver

MARKS = (".", "X", "O")


def drawing(board: Position) -> list[str]:
    """The board row by row from the top, X for the first player."""
    stride = board.rows + 1
    to_move = 1 if board.mask.bit_count() % 2 == 0 else 2
    lines = []
    for row in reversed(range(board.rows)):
        cells = []
        for column in range(board.columns):
            bit = 1 << (column * stride + row)
            owner = 0 if not board.mask & bit else to_move if board.position & bit else 3 - to_move
            cells.append(MARKS[owner])
        lines.append("  ".join(cells))
    return lines


def solved_text(solver: Solver, board: Position) -> str:
    """The board, what each column is worth, and the best line; readable without colour."""
    stones = board.mask.bit_count()
    scores = solver.scores(board)
    lines = [f"  {line}" for line in drawing(board)]
    lines.append("  " + "  ".join(str(column % 10) for column in range(1, board.columns + 1)))
    if all(score is None for score in scores):
        return "\n".join([*lines, "", "The board is full: a draw."])
    best = max(score for score in scores if score is not None)
    lines += ["", f"{MARKS[1 + stones % 2]} to move: {solver.in_words(best, stones)} (score {best:+d})", ""]
    lines.append("  column  score  with best play")
    for column, score in enumerate(scores, 1):
        if score is None:
            lines.append(f"  {column:>6}      -  full")
        else:
            words = solver.in_words(score, stones) + ("  <- best" if score == best else "")
            lines.append(f"  {column:>6} {f'{score:+d}' if score else '0':>6}  {words}")
    line = " ".join(str(column + 1) for column in solver.line(board))
    return "\n".join([*lines, "", f"best line: {line}"])


def solved_json(solver: Solver, board: Position, moves: str) -> str:
    """The same as JSON; columns from 1, as in the moves."""
    stones = board.mask.bit_count()
    scores = solver.scores(board)
    open_ = [score for score in scores if score is not None]
    best = max(open_, default=0)
    return json.dumps(
        {
            "moves": moves,
            "rows": board.rows,
            "columns": board.columns,
            "inarow": board.inarow,
            "score": best,
            "outcome": solver.in_words(best, stones),
            "best": [column for column, score in enumerate(scores, 1) if score == best] if open_ else [],
            "scores": scores,
            "outcomes": [None if score is None else solver.in_words(score, stones) for score in scores],
            "line": [column + 1 for column in solver.line(board)],
        }
    )
