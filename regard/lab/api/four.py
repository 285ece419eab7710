"""The game of the view Connect Four: what the players choose, what the solver knows, what the network looks at.

Whatever searches does so in a process of its own (thinker.py), one for each of three things that go on at a time: the
opponent's move, the truth of the board in sight, the analysis of a game.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.lab.models.board_attention import described, find_network, loaded, looked
from regard.lab.models.search_process import Thinker
from regard.lab.server.job_queue import Job
from regard.lab.server.request_fields import Asked, Mistake, as_json, asked, post, real, whole, words

if TYPE_CHECKING:
    from regard.connectx import Board

SEARCHED = 64  # (rows + 1) · columns that the solver takes
LONGEST = 120  # seconds that may be asked for
PLAYERS = re.compile(
    r"random|greedy|solver|minimax:([1-9]|1[0-4])|mcts:([1-9]\d{0,4}|100000)|network(:([1-9]\d{0,2}|1000))?"
)
SECONDS_TO_MOVE = 20.0
IN_TIME = "minimax:1s"  # who moves when the solver has not found out in time

thinker = cache(lambda lane: Thinker())


def board_of(given: Asked) -> "Board":
    """The board after the moves that were posted; each move that cannot be is named."""
    from regard.connectx import Board

    size = size_of(given)
    board = Board(*size)
    for number, sign in enumerate(words(given, "moves", "", 400), 1):
        column = "123456789".find(sign)
        facts = {"number": number, "sign": sign, "columns": size[1]}
        if not 0 <= column < size[1]:
            raise Mistake("moves", "no-column", f"move {number} is {sign!r}; columns are 1 to {size[1]}", **facts)
        if board.over:
            raise Mistake("moves", "after-end", f"move {number} comes after the end of the game", **facts)
        if column not in board.legal:
            raise Mistake("moves", "column-full", f"move {number} plays column {sign}, which is full", **facts)
        board = board.play(column)
    return board


def size_of(given: Asked) -> tuple[int, int, int]:
    """Rows, columns and how many in a row win."""
    return whole(given, "rows", 6, 3, 9), whole(given, "columns", 7, 3, 9), whole(given, "inarow", 4, 3, 6)


def running(given: Asked) -> "Board":
    """The same, of a game that is not over."""
    board = board_of(given)
    if board.over:
        raise Mistake("moves", "over", "the game is over: there is nothing left to choose")
    return board


def read(given: Asked) -> dict[str, str]:
    """The moves of a game as people write them: columns from 1, Kaggle's list of columns from 0, or Kaggle's board.

    >>> read({"text": "4, 4 5"}), read({"text": "[3, 3, 4]"})
    ({'moves': '445'}, {'moves': '445'})
    """
    from regard.connectx import Board

    size, text = size_of(given), words(given, "text", "", 4000).strip()
    if not text.startswith("["):
        return {"moves": board_of({**given, "moves": re.sub(r"[\s,.;|·-]+", "", text)}).moves}
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not all(type(one) is int and 0 <= one < 9 for one in listed):
        raise Mistake("text", "list", "a list must hold columns from 0, or the squares of a board as Kaggle has them")
    if len(listed) == size[0] * size[1] and max(listed) <= 2:
        try:
            return {"moves": Board.from_kaggle(listed, *size).moves}
        except ValueError as error:
            raise Mistake("text", "board", str(error), said=str(error)) from None
    return {"moves": board_of({**given, "moves": "".join(str(column + 1) for column in listed)}).moves}


def solvable(size: tuple[int, int, int]) -> bool:
    """Whether the solver takes boards of this size."""
    return (size[0] + 1) * size[1] <= SEARCHED


def question(what: str, board: "Board", **more: Any) -> dict[str, Any]:
    """As the process takes it."""
    return {"what": what, "moves": board.moves, "size": [board.rows, board.columns, board.inarow], **more}


def truth(board: "Board", seconds: float) -> Callable[[Job], Any]:
    """The score of every column for the side to move, None where it is full or not known in time."""

    def work(job: Job) -> Any:
        scores: list[int | None] = [None] * board.columns

        def told(line: dict[str, Any] | None) -> None:
            if line is not None:
                scores[line["column"]] = line["score"]
            job.tell(scores=list(scores))

        complete = thinker("truth").ask(question("truth", board), seconds, told)
        return {"scores": scores, "complete": complete}

    return work


def game(board: "Board", seconds: float) -> Callable[[Job], Any]:
    """The scores of every position of a game, by its ply; only those that were known in time."""

    def work(job: Job) -> Any:
        plies: dict[int, list[int | None]] = {}

        def told(line: dict[str, Any] | None) -> None:
            if line is not None:
                plies[line["ply"]] = line["scores"]
            job.tell(plies=dict(plies))

        complete = thinker("game").ask(question("game", board), seconds, told)
        return {"plies": plies, "complete": complete}

    return work


def move(board: "Board", player: str, network: Path | None) -> Callable[[Job], Any]:
    """The column that a player chooses; `sure` is false when the solver had to be replaced for want of time."""

    def work(job: Job) -> Any:
        found: dict[str, Any] = {}

        def told(line: dict[str, Any] | None) -> None:
            found.update(line or {})
            job.tell()

        sure = thinker("move").ask(question("move", board, player=player, network=str(network)), SECONDS_TO_MOVE, told)
        if not sure:
            thinker("move").ask(question("move", board, player=IN_TIME), SECONDS_TO_MOVE, told)
        if "column" not in found:
            raise RuntimeError(f"{player} found no move within {SECONDS_TO_MOVE:g} seconds")
        return {**found, "sure": sure}

    return work


# ---- routes -----------------------------------------------------------------------------------------------------


async def facts(request: Request) -> Response:
    """What the view starts from: the network that is here, if there is one."""
    folder = find_network(request.app.state.settings.network)
    return as_json({"network": None if folder is None else await run_in_threadpool(described, folder)})


def in_lane(lane: str, made: Callable[[Asked, Request], Callable[[Job], Any]]) -> Callable[[Request], Any]:
    """An endpoint that starts a job in its lane."""

    async def endpoint(request: Request) -> Response:
        given = await asked(request)
        job = request.app.state.work.start(await run_in_threadpool(made, given, request), lane=f"four-{lane}")
        return as_json({"job": job.said()})

    return endpoint


def _truth(given: Asked, _: Request) -> Callable[[Job], Any]:
    return truth(running(given), real(given, "seconds", 15, 0.1, LONGEST))


def _game(given: Asked, _: Request) -> Callable[[Job], Any]:
    if not solvable(size_of(given)):
        raise Mistake("rows", "too-large", "the solver takes boards with (rows + 1) × columns of at most 64")
    return game(board_of(given), real(given, "seconds", 30, 0.1, LONGEST))


def _move(given: Asked, request: Request) -> Callable[[Job], Any]:
    player = words(given, "player", "minimax:5", 40)
    network = find_network(request.app.state.settings.network)
    if not PLAYERS.fullmatch(player) or (player.startswith("network") and network is None):
        raise Mistake("player", "no-player", f"no player is called {player!r} here", player=player)
    board = running(given)
    if player == "solver" and not solvable(size_of(given)):
        raise Mistake("player", "too-large", "the solver takes boards with (rows + 1) × columns of at most 64")
    return move(board, player, network)


async def look(request: Request) -> Response:
    """The network's policy and value of a board, and what its heads look at from a square."""
    given = await asked(request)
    folder = find_network(request.app.state.settings.network)

    def work() -> dict[str, Any]:
        if folder is None:
            raise Mistake("", "no-network", "there is no network here")
        board = running(given)
        square = whole(given, "square", 0, 0, board.rows * board.columns - 1)
        net, player = loaded(folder)
        policy, value = player.judged(board)
        return {"policy": policy, "value": value, "heads": looked(net, board, square)}

    return as_json(await run_in_threadpool(work))


routes = [
    Route("/api/four", facts, methods=["GET"]),
    post("/api/four/read", read),
    Route("/api/four/move", in_lane("move", _move), methods=["POST"]),
    Route("/api/four/truth", in_lane("truth", _truth), methods=["POST"]),
    Route("/api/four/game", in_lane("game", _game), methods=["POST"]),
    Route("/api/four/look", look, methods=["POST"]),
]
