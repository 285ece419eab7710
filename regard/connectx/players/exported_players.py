"""Players in an exported Kaggle file: they read book or network from that file."""

import sys
import tempfile
from typing import Any

from regard.connectx.game.bitboard import Shape
from regard.connectx.players.player import Budget, Player
from regard.connectx.players.search_players import MinimaxPlayer, SolverPlayer
from regard.numba_functions import numba


def embedded_file(name: str) -> bytes | None:
    """Return a data file embedded in the exported file that this module was loaded from; None if there is none."""
    return vars(sys.modules[__name__.partition(".")[0]]).get("embedded_files", {}).get(name)


def embedded_book() -> Any:
    """Return the opening book embedded in the exported file; None if there is none."""
    content = embedded_file("book")
    if content is None:
        return None
    from regard.connectx.solver.opening_book import load_book

    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return load_book(file.name)


def embedded_network(budget: Budget) -> Player:
    """Return a player with the network that is embedded in the exported file."""
    from regard.connectx.kaggle.numpy_network import NumpyNetwork
    from regard.connectx.players.network_player import NetworkPlayer

    network = NumpyNetwork(embedded_file("network") or b"")
    return NetworkPlayer(network, *budget, search_evaluator=network.one_sided, in_table=network.covers)


def embedded_solver(seconds: float, shape: Shape) -> Player:
    """Return the perfect player on 6×7×4, with the embedded book; else alpha-beta for `seconds` per move.

    Without numba, and on other boards without a book, the solver would take too long.
    """
    if shape[:3] == (6, 7, 4) and numba is not None:
        return SolverPlayer(embedded_book())
    return MinimaxPlayer(None, seconds)
