"""Kaggle's way to ask for a move: a function of an observation and a configuration."""

from collections.abc import Callable, Mapping
from typing import Any

from regard.connectx.game.board import Board
from regard.connectx.players.registry import Player, player


def board_of(observation: Mapping[str, Any], configuration: Mapping[str, Any]) -> Board:
    """The board that Kaggle describes.

    >>> board_of({"board": [0] * 42, "mark": 1}, {"rows": 6, "columns": 7, "inarow": 4}) == Board()
    True
    """
    rows, columns, inarow = (int(_read(configuration, name)) for name in ("rows", "columns", "inarow"))
    board = Board.from_kaggle(list(_read(observation, "board")), rows, columns, inarow, check=False)
    mark = _read(observation, "mark")
    if mark != board.turn:
        raise ValueError(
            f"{board.stones} stones lie on the board, so it is player {board.turn}'s turn, got mark {mark}"
        )
    return board


def agent(who: str | Player) -> Callable[[Any, Any], int]:
    """A player as an agent for `kaggle_environments`: `env.run([agent("minimax:5"), "random"])`.

    >>> agent("greedy")({"board": [0] * 42, "mark": 1}, {"rows": 6, "columns": 7, "inarow": 4})
    3
    """
    chosen = player(who) if isinstance(who, str) else who

    def act(observation: Any, configuration: Any) -> int:
        return int(chosen.choose(board_of(observation, configuration)))

    return act


def _read(given: Any, name: str) -> Any:
    return given[name] if isinstance(given, Mapping) else getattr(given, name)
