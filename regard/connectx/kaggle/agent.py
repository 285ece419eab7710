"""Kaggle's interface to an agent: a function of an observation and a configuration that returns a column."""

from collections.abc import Callable, Mapping
from typing import Any

from regard.connectx.game.board import Board
from regard.connectx.players.player import Player
from regard.connectx.players.registry import player


def read_board(observation: Any, configuration: Any) -> Board:
    """Return the board that Kaggle describes.

    >>> read_board({"board": [0] * 42, "mark": 1}, {"rows": 6, "columns": 7, "inarow": 4}) == Board()
    True
    """
    rows, columns, inarow = (int(_field(configuration, name)) for name in ("rows", "columns", "inarow"))
    board = Board.from_kaggle(list(_field(observation, "board")), rows, columns, inarow, check=False)
    mark = _field(observation, "mark")
    if mark != board.turn:
        raise ValueError(
            f"with {board.stones} stones on the board it is player {board.turn}'s turn, but the mark is {mark}"
        )
    return board


def agent(who: str | Player) -> Callable[[Any, Any], int]:
    """Return a player as an agent for `kaggle_environments`: `env.run([agent("minimax:5"), "random"])`.

    who         a player or its name

    >>> agent("greedy")({"board": [0] * 42, "mark": 1}, {"rows": 6, "columns": 7, "inarow": 4})
    3
    """
    choose = (player(who) if isinstance(who, str) else who).choose
    return lambda observation, configuration: int(choose(read_board(observation, configuration)))


def _field(mapping: Any, name: str) -> Any:
    return mapping[name] if isinstance(mapping, Mapping) else getattr(mapping, name)
