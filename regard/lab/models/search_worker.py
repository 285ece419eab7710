"""The process that thinks about boards: a question a line on standard input, its answers a line each.

what "truth"    the exact score of every column, each as soon as it is known
what "game"     the same for every position of a game, from its end to its beginning: late positions are quick, and what
                was found there helps with the earlier ones
what "move"     the column that a player chooses
"""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from regard.connectx import AlphaBeta, Board, Player, Shape, Solver, Stones, fits, player
from regard.lab.models.board_attention import chosen, loaded

GLANCE = 0.12  # seconds of alpha-beta for each column before the solver is asked
LATE = 24  # squares left from which on the solver needs no such help
TABLE_BITS = 22  # of the solver: 64 MB
IDLE = 600  # seconds after which a process that nobody asks ends itself


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        question = json.loads(line)
        seconds = float(question["seconds"])
        _ends_after(seconds + 60)  # though whoever asked is gone
        try:
            board = Board.from_moves(question["moves"], *question["size"])
            _get_ready(board, question)
            _say({"begun": True})
            for found in ANSWERS[question["what"]](board, question):
                _say(found)
            _say({"end": True})
        except (ValueError, RuntimeError) as error:
            _say({"failed": str(error)})
        _ends_after(IDLE)


def truth(board: Board, question: Any = None) -> Iterator[dict[str, Any]]:
    """The score of every column, the cheapest first: what ends the game, what a short search proves, then the rest."""
    symmetric = board == board.mirror()
    seen: set[int] = set()
    for column, score in _cheapest_first(board, symmetric):
        for one in (column, board.columns - 1 - column) if symmetric else (column,):
            if one not in seen:
                seen.add(one)
                yield {"column": one, "score": score}


def game(board: Board, question: Any = None) -> Iterator[dict[str, Any]]:
    """The scores of every position of the game, from the last that is not over."""
    size = board.rows, board.columns, board.inarow
    for ply in range(board.stones - board.over, -1, -1):
        yield {"ply": ply, "scores": _solver(*size).scores(Board.from_moves(board.moves[:ply], *size))}


def move(board: Board, question: Any) -> Iterator[dict[str, Any]]:
    """The column that a player chooses; the solver's is the best of all, of several the one nearest the middle."""
    kind, _, amount = question["player"].partition(":")
    if kind == "network":
        yield chosen(loaded(Path(question["network"]))[1], board, int(amount or 0))
        return
    if kind != "solver":
        yield {"column": _player(question["player"]).choose(board)}
        return
    scores: dict[int, int] = {}
    for found in truth(board):
        scores[found["column"]] = found["score"]
        if found["score"] == (board.rows * board.columns + 1 - board.stones) // 2:
            break  # it wins at once
    yield {"column": max(scores, key=lambda c: (scores[c], -abs(2 * c - board.columns + 1), -c))}


def _cheapest_first(board: Board, symmetric: bool) -> Iterator[tuple[int, int]]:
    cells = board.rows * board.columns
    left: list[tuple[int, int, Board]] = []  # what a guess says, column, board after it
    for column in sorted(board.legal, key=lambda c: abs(2 * c - board.columns + 1)):
        after = board.play(column)
        if symmetric and 2 * column >= board.columns:
            continue
        if after.winner is not None:
            yield column, (cells + 1 - board.stones) // 2
        elif after.full:
            yield column, 0
        else:
            left.append((0, column, after))
    solvable, glance = fits(board.shape), GLANCE
    while left and (not solvable or (glance == GLANCE and cells - board.stones > LATE)):
        open_ = []
        for _, column, after in left:
            found = _search(board.shape).run(after.position, after.mask, seconds=glance)
            score = found.score(cells)
            if score is None:
                open_.append((abs(found.value), column, after))
            else:
                yield column, -score
        left, glance = open_, 2 * glance
    for _, column, after in sorted(left, key=lambda one: -one[0]):
        yield column, -_solver(board.rows, board.columns, board.inarow).score(after)


def _get_ready(board: Board, question: Any) -> None:
    """Load or compile what the answer needs, before the clock runs."""
    name = question.get("player", "solver")
    if name.startswith("network"):
        chosen(loaded(Path(question["network"]))[1], board, 2)
    elif name != "solver":
        _player(name)
    elif fits(board.shape):
        full = board.shape.full
        lower = [1 << at for at in range(full.bit_length()) if full >> at & 1][: board.rows * board.columns // 2]
        with suppress(ValueError):  # somebody has a line on such a board: all the same
            _solver(board.rows, board.columns, board.inarow).score(Stones(sum(lower), full, *board.shape[:3]))


@cache
def _solver(rows: int, columns: int, inarow: int) -> Solver:
    return Solver(rows, columns, inarow, table_bits=TABLE_BITS)


@cache
def _search(shape: Shape) -> AlphaBeta:
    return AlphaBeta(shape)


@cache
def _player(name: str) -> Player:
    return player(name)


def _ends_after(seconds: float) -> None:
    if hasattr(signal, "alarm"):
        signal.alarm(int(seconds) + 1)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


ANSWERS = {"truth": truth, "game": game, "move": move}

if __name__ == "__main__":
    main()
