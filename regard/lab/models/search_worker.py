"""The search process: reads one question per line from standard input and writes its answers as JSON lines.

what "truth"    exact score of every column, each as soon as it is known
what "game"     scores of every position of a game, last to first: late positions are quick to solve, and their
                results speed up the earlier ones
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

from regard.connectx import AlphaBeta, Board, Solver, player
from regard.connectx.game.bitboard import fits_in_64_bits
from regard.lab.models.board_attention import load_board_network, network_move

FIRST_SEARCH = 0.12  # seconds of alpha-beta per column before the solver is used
ENDGAME = 24  # with this many empty squares or fewer, the solver is used at once
TABLE_BITS = 22  # the solver's table takes 64 MB
IDLE_SECONDS = 600  # an idle process ends itself after this time


def main() -> None:
    """Answer questions until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the lab, which kills this process
    for line in sys.stdin:
        question = json.loads(line)
        seconds = float(question["seconds"])
        _end_after(seconds + 60)  # so that the process ends even if the lab was killed
        try:
            board = Board.from_moves(question["moves"], *question["size"])
            _prepare(board, question)
            _send({"begun": True})
            for line in ANSWERS[question["what"]](board, question):
                _send(line)
            _send({"end": True})
        except (ValueError, RuntimeError) as error:
            _send({"failed": str(error)})
        _end_after(IDLE_SECONDS)


def truth(board: Board, question: Any = None) -> Iterator[dict[str, Any]]:
    """Yield the score of every column, cheapest first: moves that end the game, short searches, the solver."""
    symmetric = board == board.mirror()
    done: set[int] = set()
    for column, score in _cheapest_first(board, symmetric):
        for one in (column, board.columns - 1 - column) if symmetric else (column,):
            if one not in done:
                done.add(one)
                yield {"column": one, "score": score}


def game(board: Board, question: Any = None) -> Iterator[dict[str, Any]]:
    """Yield the scores of every position of the game, starting with the last one that is not over."""
    size = board.rows, board.columns, board.inarow
    for ply in range(board.stones - board.over, -1, -1):
        yield {"ply": ply, "scores": _solver(*size).scores(Board.from_moves(board.moves[:ply], *size))}


def move(board: Board, question: Any) -> Iterator[dict[str, Any]]:
    """Yield the column that a player chooses; the solver takes the best one, of several the one nearest the middle."""
    kind, _, amount = question["player"].partition(":")
    if kind == "network":
        yield network_move(load_board_network(Path(question["network"]))[1], board, int(amount or 0))
        return
    if kind != "solver":
        yield {"column": _player(question["player"]).choose(board)}
        return
    scores: dict[int, int] = {}
    for line in truth(board):
        scores[line["column"]] = line["score"]
        if line["score"] == (board.rows * board.columns + 1 - board.stones) // 2:
            break  # this move wins at once
    yield {"column": max(scores, key=lambda c: (scores[c], -abs(2 * c - board.columns + 1), -c))}


def _cheapest_first(board: Board, symmetric: bool) -> Iterator[tuple[int, int]]:
    cells = board.rows * board.columns
    unsolved: list[tuple[int, int, Board]] = []  # magnitude of the estimate, column, board after the move
    for column in sorted(board.legal, key=lambda c: abs(2 * c - board.columns + 1)):
        after = board.play(column)
        if symmetric and 2 * column >= board.columns:
            continue
        if after.winner is not None:
            yield column, (cells + 1 - board.stones) // 2
        elif after.full:
            yield column, 0
        else:
            unsolved.append((0, column, after))
    solvable, seconds = fits_in_64_bits(board.shape), FIRST_SEARCH
    while unsolved and (not solvable or (seconds == FIRST_SEARCH and cells - board.stones > ENDGAME)):
        remaining = []
        for _, column, after in unsolved:
            result = _search(board.shape).run(after.position, after.mask, seconds=seconds)
            score = result.score(cells)
            if score is None:
                remaining.append((abs(result.value), column, after))
            else:
                yield column, -score
        unsolved, seconds = remaining, 2 * seconds
    for _, column, after in sorted(unsolved, key=lambda one: -one[0]):
        yield column, -_solver(board.rows, board.columns, board.inarow).score(after)


def _prepare(board: Board, question: Any) -> None:
    """Load or compile the code that the answer needs, before its time is measured."""
    name = question.get("player", "solver")
    if name.startswith("network"):
        network_move(load_board_network(Path(question["network"]))[1], board, 2)
    elif name != "solver":
        _player(name)
    elif fits_in_64_bits(board.shape):
        full = board.shape.full
        lower = [1 << at for at in range(full.bit_length()) if full >> at & 1][: board.rows * board.columns // 2]
        with suppress(ValueError):  # the board may contain a line; only the compilation matters
            _solver(board.rows, board.columns, board.inarow).score(sum(lower), full)


@cache
def _solver(rows: int, columns: int, inarow: int) -> Solver:
    return Solver(rows, columns, inarow, table_bits=TABLE_BITS)


_search = cache(AlphaBeta)
_player = cache(player)


def _end_after(seconds: float) -> None:
    if hasattr(signal, "alarm"):
        signal.alarm(int(seconds) + 1)


def _send(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


ANSWERS = {"truth": truth, "game": game, "move": move}

if __name__ == "__main__":
    main()
