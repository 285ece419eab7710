"""The kinds of players by name: construction, meaning of the part after the colon, and data for the export.

random            any legal column
greedy            completes a line, else blocks one, else the column nearest to the centre
minimax:5         alpha-beta, 5 plies deep           minimax:100ms   as deep as the time allows
mcts:1000         tree search with 1,000 play-outs   mcts:100ms      as many as the time allows
solver            perfect play
network           the shipped network, its policy without search
network:200       network + opening table, with a search of 200 simulations; network:100ms: as many as the time allows
network:without-table:200                            the same network without its opening table
network:runs/a    another network, also network:runs/a:200
path/main.py      a Kaggle agent, run in its own process (also .tar.gz)

This module imports nothing at its top that is slow to load, so that commands can list the players.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.connectx.players.player import Budget, Player

if TYPE_CHECKING:
    from regard.connectx.game.bitboard import Shape

AGENT_FILES = (".py", ".tar.gz")


class PlayerName(NamedTuple):
    """The parts of a player's name: `network:runs/a:200` has kind "network", source "runs/a" and amount "200".

    `network:200` has source "", which means the shipped network.
    """

    kind: str
    source: str
    amount: str


@dataclass(frozen=True)
class PlayerKind:
    """A kind of player: its names, and the modules and data that an exported file needs.

    examples    names of such players, for help texts
    unit        unit of a number after the colon, such as "plies"; "" if nothing may follow the name
    default     the amount if none is given; "" if the player works without one
    modules     modules of regard that an exported file needs beside those that every file has
    data        data file that an exported file contains and its player reads: "book", "network" or ""
    """

    examples: tuple[str, ...]
    unit: str = ""
    default: str = ""
    modules: tuple[str, ...] = ()
    data: str = ""


def player(name: str, *, seed: int | None = None) -> Player:
    """Return the player of this name; `seed` makes random choices repeatable.

    >>> from regard.connectx import Board
    >>> player("greedy").choose(Board.from_moves("112233"))
    3
    >>> player("minmax:5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: no player is called 'minmax:5'; did you mean 'minimax:5'? Players are ...
    """
    name = name.strip()
    kind = name.partition(":")[0]
    if name.endswith(AGENT_FILES) and (kind not in KINDS or Path(name).exists()):
        from regard.connectx.players.agent_file import AgentFile

        return AgentFile(name)
    result = _build(parse_name(name), budget_of(name), seed)
    result.name = name
    return result


def exported_player(name: str, seconds: float, shape: "Shape") -> Player:
    """Return the player of this name, inside an exported file; it takes at most `seconds` for a move."""
    parsed, budget = parse_name(name), budget_of(name)
    kind = KINDS[parsed.kind]
    if parsed.amount or kind.default:
        budget = budget.within(seconds)
    if not kind.data:
        return _build(parsed, budget, None)
    from regard.connectx.players.exported_players import embedded_network, embedded_solver

    return embedded_solver(seconds, shape) if parsed.kind == "solver" else embedded_network(budget)


def parse_name(name: str) -> PlayerName:
    """Return kind, source and amount of a player's name.

    >>> parse_name("mcts:100ms"), parse_name("network:runs/mine:200").source
    (PlayerName(kind='mcts', source='', amount='100ms'), 'runs/mine')
    """
    kind, _, rest = name.strip().partition(":")
    if kind not in KINDS:
        closest = difflib.get_close_matches(kind, KINDS, n=1, cutoff=0.5)
        hint = f"did you mean {closest[0] + (':' + rest if rest else '')!r}? " if closest else ""
        raise ValueError(f"no player is called {name!r}; {hint}Players are {PLAYER_NAMES}")
    if kind != "network":
        return PlayerName(kind, "", rest)
    source, _, amount = rest.rpartition(":")
    if not amount[:1].isdigit() or (Path(rest) / "model.json").exists():
        return PlayerName(kind, rest, "")
    return PlayerName(kind, source, amount)


def opening_table_note(names: Iterable[str]) -> str | None:
    """Return a note on the players that look up openings in a table beside their network; None if there are none.

    >>> opening_table_note(["random", "network", "network:200", "network:without-table:200"])
    'network:200: network + opening table (exact values of openings, in the search)'
    """
    with_table = [name for name in names if _uses_opening_table(name)]
    if not with_table:
        return None
    return f"{', '.join(with_table)}: network + opening table (exact values of openings, in the search)"


def _uses_opening_table(name: str) -> bool:
    """Return whether this is a network player that searches, and whose network has an opening table."""
    if name.partition(":")[0] != "network" or not parse_name(name).amount:
        return False
    from regard.connectx.players.network_player import has_opening_table

    return has_opening_table(parse_name(name).source)


def budget_of(name: str) -> Budget:
    """Return the budget for a move of the player of this name.

    >>> budget_of("mcts:100ms"), budget_of("mcts:1_000"), budget_of("solver").number
    (Budget(number=None, seconds=0.1), Budget(number=1000, seconds=None), None)
    """
    parsed = parse_name(name)
    unit, amount = KINDS[parsed.kind].unit, parsed.amount or KINDS[parsed.kind].default
    if not amount:
        return Budget()
    if not unit:
        raise ValueError(f"{parsed.kind!r} takes nothing after a colon, got {name!r}")
    match = re.fullmatch(r"(\d[\d_]*)(\.\d+)?(ms|s)?", amount)
    if match is None or (match[2] and not match[3]):
        raise ValueError(f"{name!r} must end in a number of {unit} or a time, such as 1000, 100ms or 2s")
    number = float(match[1] + (match[2] or ""))
    budget = Budget(None, number / (1000 if match[3] == "ms" else 1)) if match[3] else Budget(int(match[1]))
    if 0 in budget:
        raise ValueError(f"the amount after the colon must be greater than 0, got {name!r}")
    return budget


def _build(name: PlayerName, budget: Budget, seed: int | None) -> Player:
    """Return a player; import its module only now, because it is slow to load and not part of every exported file."""
    if name.kind in ("random", "greedy"):
        from regard.connectx.players.simple_players import GreedyPlayer, RandomPlayer

        return RandomPlayer(seed) if name.kind == "random" else GreedyPlayer()
    if name.kind == "network":
        from regard.connectx.players.network_player import load_network_player

        return load_network_player(name.source, budget)
    from regard.connectx.players.search_players import MctsPlayer, MinimaxPlayer, SolverPlayer

    if name.kind == "solver":
        return SolverPlayer()
    return MinimaxPlayer(*budget) if name.kind == "minimax" else MctsPlayer(*budget, seed)


_SIMPLE, _EXPORTED = ("connectx.players.simple_players",), "connectx.players.exported_players"

KINDS = {
    "random": PlayerKind(("random",), modules=_SIMPLE),
    "greedy": PlayerKind(("greedy",), modules=_SIMPLE),
    "minimax": PlayerKind(("minimax:5", "minimax:100ms"), "plies", "5"),
    "mcts": PlayerKind(("mcts:1000", "mcts:100ms"), "play-outs", "1000", ("connectx.search.mcts_random_rollouts",)),
    "solver": PlayerKind(("solver",), modules=(_EXPORTED, "connectx.solver.perfect_solver"), data="book"),
    "network": PlayerKind(
        ("network", "network:200", "network:without-table:200", "network:RUN:200"), "simulations", data="network",
        modules=(_EXPORTED, "connectx.players.network_player", "connectx.kaggle.numpy_network"),
    ),
}  # fmt: skip

PLAYER_NAMES = ", ".join([*(example for kind in KINDS.values() for example in kind.examples), "path/main.py"])
