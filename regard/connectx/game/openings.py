"""Openings: positions where games begin, so that deterministic players do not repeat the same game.

balanced   random moves that lead to a position that the solver scores as a draw, without immediate threats
random     random moves, whichever side they favour (each opening is played from both sides)
none       the empty board
FILE       a file with one move string per line
"""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from regard.connectx.game.bitboard import completing_squares, playable_squares
from regard.connectx.game.board import Board
from regard.files import explain_damage
from regard.numba_functions import uncompiled

MAX_TRIES = 5_000  # number of successive positions that are not new or not balanced before the search gives up

_completing_squares, _playable_squares = uncompiled(completing_squares), uncompiled(playable_squares)


def openings(
    kind: str, count: int, size: tuple[int, int, int] = (6, 7, 4), *, plies: int = 8, seed: int = 0
) -> Iterator[Board]:
    """Yield up to `count` openings; with the same seed, a larger count only adds openings at the end.

    kind        "balanced": drawn positions without immediate threats; "random"; "none": the empty board; or a file with
                one string of moves per line
    count       largest number of openings
    size        rows, columns and stones in a line that win
    plies       number of moves
    seed        seed of the random moves

    >>> [board.stones for board in openings("random", 3, plies=4)]
    [4, 4, 4]
    """
    if kind == "none":
        return iter([Board(*size)])
    if kind in ("balanced", "random"):
        return islice(_random_openings(kind == "balanced", size, plies, seed), count)
    path = Path(kind)
    if not path.is_file():
        raise ValueError(f"openings must be balanced, random, none or a file of move strings, got {kind!r}")
    with explain_damage(path, "a file of openings", "write the moves of an unfinished game in every line"):
        lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
        boards = [Board.from_moves(line, *size) for line in lines if line]
        over = next((board for board in boards if board.over), None)
        if over is not None or not boards:
            raise ValueError("it contains no moves" if over is None else f"after {over.moves} the game is over")
    return islice(boards, count)


def _random_openings(balanced: bool, size: tuple[int, int, int], plies: int, seed: int) -> Iterator[Board]:
    generator = random.Random(f"{seed} {plies} {size}")
    visited: set[Board] = set()
    solver = None
    if balanced:
        from regard.connectx.solver.perfect_solver import Solver

        solver = Solver(*size)
    tries = 0
    while tries < MAX_TRIES:
        tries += 1
        board = Board(*size)
        while board.stones < plies and not board.over:
            board = board.play(generator.choice(board.legal))
        if board.over or board in visited:
            continue
        visited |= {board, board.mirror()}
        moves = _playable_squares(board.mask, board.shape)
        tactical = any(
            _completing_squares(stones, board.shape) & moves for stones in (board.position, board.position ^ board.mask)
        )
        if tactical or (solver is not None and solver.score(board) != 0):
            continue
        tries = 0
        yield board
