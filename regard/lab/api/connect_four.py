"""Endpoints of the view Connect Four: moves of the players, exact scores, and the network's attention.

Every search runs in a process of its own (models/search_process.py), one for each of three requests that may run at the
same time: the opponent's move, the scores of the current board, and the analysis of a game.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from regard.lab.models.board_attention import attention_by_head, describe_network, find_network, load_board_network
from regard.lab.models.search_process import SearchProcess
from regard.lab.server.job_queue import Job
from regard.lab.server.request_fields import FieldError, Fields, integer, number, text
from regard.lab.server.routes import get, post, post_job

if TYPE_CHECKING:
    from regard.connectx import Board

SOLVER_BITS = 64  # the solver needs (rows + 1) · columns bits
MOST_SECONDS = 120
PLAYERS = re.compile(
    r"random|greedy|solver|minimax:([1-9]|1[0-4])|mcts:([1-9]\d{0,4}|100000)|network(:([1-9]\d{0,2}|1000))?"
)
SECONDS_TO_MOVE = 20.0
FALLBACK_PLAYER = "minimax:1s"  # chooses the move if the solver has not finished in time

search_process = cache(lambda lane: SearchProcess())


def board_of(fields: Fields) -> "Board":
    """Return the board after the posted moves; an error names the first impossible move."""
    from regard.connectx import Board

    size = size_of(fields)
    board = Board(*size)
    for turn, sign in enumerate(text(fields, "moves", "", 400), 1):
        column = "123456789".find(sign)
        facts = {"number": turn, "sign": sign, "columns": size[1]}
        if not 0 <= column < size[1]:
            raise FieldError("moves", "no-column", f"move {turn} is {sign!r}; columns are 1 to {size[1]}", **facts)
        if board.over:
            raise FieldError("moves", "after-end", f"move {turn} comes after the end of the game", **facts)
        if column not in board.legal:
            raise FieldError("moves", "column-full", f"move {turn} plays column {sign}, which is full", **facts)
        board = board.play(column)
    return board


def size_of(fields: Fields) -> tuple[int, int, int]:
    """Return rows, columns and the number of stones in a row that wins."""
    return integer(fields, "rows", 6, 3, 9), integer(fields, "columns", 7, 3, 9), integer(fields, "inarow", 4, 3, 6)


def unfinished_board(fields: Fields) -> "Board":
    """Return the board after the posted moves; the game must not be over."""
    board = board_of(fields)
    if board.over:
        raise FieldError("moves", "over", "the game is over: there is no move to choose")
    return board


def parse_game(fields: Fields) -> dict[str, str]:
    """Return the moves of a game: columns from 1, Kaggle's list of columns from 0, or Kaggle's list of squares.

    >>> parse_game({"text": "4, 4 5"}), parse_game({"text": "[3, 3, 4]"})
    ({'moves': '445'}, {'moves': '445'})
    """
    from regard.connectx import Board

    size, game = size_of(fields), text(fields, "text", "", 4000).strip()
    if not game.startswith("["):
        return {"moves": board_of({**fields, "moves": re.sub(r"[\s,.;|·-]+", "", game)}).moves}
    try:
        entries = json.loads(game)
    except ValueError:
        entries = None
    if not isinstance(entries, list) or not all(type(one) is int and 0 <= one < 9 for one in entries):
        message = "a list must contain columns counted from 0, or the squares of a board in Kaggle's order"
        raise FieldError("text", "list", message)
    if len(entries) == size[0] * size[1] and max(entries) <= 2:
        try:
            return {"moves": Board.from_kaggle(entries, *size).moves}
        except ValueError as error:
            raise FieldError("text", "board", str(error), reason=str(error)) from None
    return {"moves": board_of({**fields, "moves": "".join(str(column + 1) for column in entries)}).moves}


def question(what: str, board: "Board", **more: Any) -> dict[str, Any]:
    """Return a request about a board in the format that the search process reads (search_worker.py)."""
    return {"what": what, "moves": board.moves, "size": [board.rows, board.columns, board.inarow], **more}


def truth(fields: Fields) -> Callable[[Job], Any]:
    """Return the job that scores every column for the side to move; None for columns full or not solved in time."""
    board, seconds = unfinished_board(fields), number(fields, "seconds", 15, 0.1, MOST_SECONDS)
    scores: list[int | None] = [None] * board.columns
    return lambda job: _collect(job, "truth", board, seconds, "scores", scores, ("column", "score"))


def game(fields: Fields) -> Callable[[Job], Any]:
    """Return the job that scores every position of a game, by ply; positions not solved in time are left out."""
    _check_solvable(fields, "rows")
    board, seconds = board_of(fields), number(fields, "seconds", 30, 0.1, MOST_SECONDS)
    return lambda job: _collect(job, "game", board, seconds, "plies", {}, ("ply", "scores"))


def _collect(
    job: Job, what: str, board: "Board", seconds: float, name: str, scores: Any, keys: tuple[str, str]
) -> dict[str, Any]:
    """Send a request to the search process; store each score it returns in `scores`, and report them as `name`."""

    def on_line(line: dict[str, Any] | None) -> None:
        if line is not None:
            scores[line[keys[0]]] = line[keys[1]]
        job.report(**{name: scores.copy()})

    return {"complete": search_process(what).ask(question(what, board), seconds, on_line), name: scores}


def move(fields: Fields, network: Path | None) -> Callable[[Job], Any]:
    """Return the job that chooses a player's move; `sure` is false if `FALLBACK_PLAYER` had to choose it."""
    player = text(fields, "player", "minimax:5", 40)
    if not PLAYERS.fullmatch(player) or (player.startswith("network") and network is None):
        raise FieldError("player", "no-player", f"the lab has no such player, got {player!r}", player=player)
    board = unfinished_board(fields)
    if player == "solver":
        _check_solvable(fields, "player")

    def work(job: Job) -> Any:
        answer: dict[str, Any] = {}

        def on_line(line: dict[str, Any] | None) -> None:
            answer.update(line or {})
            job.report()

        search = search_process("move")
        sure = search.ask(question("move", board, player=player, network=str(network)), SECONDS_TO_MOVE, on_line)
        if not sure:
            search.ask(question("move", board, player=FALLBACK_PLAYER), SECONDS_TO_MOVE, on_line)
        if "column" not in answer:
            raise RuntimeError(f"{player} found no move within {SECONDS_TO_MOVE:g} seconds")
        return {**answer, "sure": sure}

    return work


def _check_solvable(fields: Fields, field: str) -> None:
    rows, columns, _ = size_of(fields)
    if (rows + 1) * columns > SOLVER_BITS:
        raise FieldError(field, "too-large", "the solver needs (rows + 1) × columns of at most 64; use a smaller board")


def network_folder(request: Request) -> Path | None:
    """Return the folder of the network to show, or None when there is none."""
    return find_network(request.app.state.settings.network)


def network_facts(_: Fields, folder: Path | None) -> dict[str, Any]:
    """Return the size and architecture of the network."""
    return {"network": None if folder is None else describe_network(folder)}


def look(fields: Fields, folder: Path | None) -> dict[str, Any]:
    """Return the network's policy and value for a board, and the attention of its heads from one square."""
    if folder is None:
        raise FieldError("", "no-network", "there is no network to show; start the lab with --network FOLDER")
    board = unfinished_board(fields)
    square = integer(fields, "square", 0, 0, board.rows * board.columns - 1)
    net, player = load_board_network(folder)
    policy, value = player.evaluate(board)
    return {"policy": policy, "value": value, "heads": attention_by_head(net, board, square)}


routes = [
    get("/api/four", network_facts, network_folder),
    post("/api/four/read", parse_game),
    post_job("/api/four/move", move, network_folder, lane="four-move"),
    post_job("/api/four/truth", truth, lane="four-truth"),
    post_job("/api/four/game", game, lane="four-game"),
    post("/api/four/look", look, network_folder),
]
