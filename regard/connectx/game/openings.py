"""Positions to begin from, so that players that always do the same do not play the same game.

balanced   random moves that lead to a position which the solver knows to be drawn, with nothing to gain at once
random     random moves, whoever they favour (each is played by both sides)
none       the empty board
FILE       a move string a line
"""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from regard.compiled import uncompiled
from regard.connectx.game.bitboard import completing, possible
from regard.connectx.game.board import Board

TRIES = 5_000  # positions looked at in a row, none of them new and balanced, before giving up

_completing, _possible = uncompiled(completing), uncompiled(possible)


def openings(
    kind: str, count: int, size: tuple[int, int, int] = (6, 7, 4), *, plies: int = 8, seed: int = 0
) -> Iterator[Board]:
    """Up to `count` openings, one after the other; a longer list begins with the shorter one.

    >>> [board.stones for board in openings("random", 3, plies=4)]
    [4, 4, 4]
    """
    if kind == "none":
        return iter([Board(*size)])
    if kind in ("balanced", "random"):
        return islice(_drawn_by_lot(kind == "balanced", size, plies, seed), count)
    path = Path(kind)
    if not path.is_file():
        raise ValueError(f"openings must be balanced, random, none or a file of move strings, got {kind!r}")
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    boards = [Board.from_moves(line, *size) for line in lines if line]
    over = next((board for board in boards if board.over), None)
    if over is not None or not boards:
        what = "no moves" if over is None else f"{over.moves}, where the game is over"
        raise ValueError(f"{kind} must hold openings of running games, got {what}")
    return islice(boards, count)


def _drawn_by_lot(balanced: bool, size: tuple[int, int, int], plies: int, seed: int) -> Iterator[Board]:
    lot = random.Random(f"{seed} {plies} {size}")
    seen: set[Board] = set()
    solver = None
    if balanced:
        from regard.connectx.solver.solver import Solver

        solver = Solver(*size)
    tries = 0
    while tries < TRIES:
        tries += 1
        board = Board(*size)
        while board.stones < plies and not board.over:
            board = board.play(lot.choice(board.legal))
        if board.over or board in seen:
            continue
        seen |= {board, board.mirror()}
        moves = _possible(board.mask, board.shape)
        tactical = any(
            _completing(stones, board.shape) & moves for stones in (board.position, board.position ^ board.mask)
        )
        if tactical or (solver is not None and solver.score(board) != 0):
            continue
        tries = 0
        yield board
