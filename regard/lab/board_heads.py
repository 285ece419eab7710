"""What a board network thinks of a position, and what each of its heads looks at.

A head's attention from a square is a share of weight for every square. How much of it falls on squares of a kind (the
same row, the own stones, …) is measured beside chance: what would fall there if the head spread its weight evenly over
the squares that it can see. Kinds overlap, and the square itself belongs to none but the stones.
"""

import json
import threading
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.connectx import Board
    from regard.models import BoardNet, Evaluator

KINDS = ("row", "column", "diagonal", "local", "own", "opponent")
SHIPPED = "four"
WIDTH = 8  # leaves of a search that are judged at once

_loading = threading.Lock()


def find_network(given: Path | None) -> Path | None:
    """The folder of the network to show: the one that was given, or one that comes with regard; None without."""
    if given is not None:
        return given
    shipped = Path(str(files("regard.connectx"))) / "networks"
    found = sorted(file.parent for file in shipped.glob("*/model.json"))
    return next((folder for folder in found if folder.name == SHIPPED), found[0] if found else None)


def described(folder: Path) -> dict[str, Any]:
    """What a network is made of, read from its files without loading it."""
    words = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    config = words["config"]
    every = config.get("attn_every")
    layers = 0 if every is None else config["layers"] // every
    size = (folder / "model.safetensors").stat().st_size
    return {
        "name": folder.name,
        "kind": words["kind"],
        "channels": config["channels"],
        "blocks": config["layers"],
        "layers": layers,
        "heads": config["heads"],
        "parameters": size // 4,
    }


def loaded(folder: Path) -> tuple["BoardNet", "Evaluator"]:
    """The network of a folder, and an evaluator that judges by it and its mirror image; kept once loaded."""
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    with _loading:
        return _loaded(folder, stamp)


@lru_cache(maxsize=2)
def _loaded(folder: Path, _: int) -> tuple["BoardNet", "Evaluator"]:
    from regard.models import BoardNet, Evaluator, load

    net = load(folder)
    if not isinstance(net, BoardNet):
        raise ValueError(f"{folder} holds a {type(net).__name__}, not a board network")
    return net.eval(), Evaluator(net, mirror=True)


def planes_of(board: "Board") -> tuple[Any, Any]:
    """(2, rows, columns) of float32, own stones and the opponent's, and which columns may be played."""
    import numpy as np

    squares = np.array(board.kaggle(), np.int8).reshape(board.rows, board.columns)
    planes = np.stack([squares == board.turn, squares == 3 - board.turn]).astype(np.float32)
    return planes, squares[0] == 0


def judged(evaluator: "Evaluator", board: "Board") -> tuple[list[float], float]:
    """The probability of every column, and the value for the side to move: one look, no search."""
    planes, legal = planes_of(board)
    found = evaluator(planes[None], legal[None])
    return [float(p) for p in found.policy[0]], float(found.value[0])


def chosen(evaluator: "Evaluator", board: "Board", simulations: int) -> dict[str, Any]:
    """The network's move: its likeliest column, or the one that a search of so many walks visits most."""
    import numpy as np

    from regard.connectx import Puct

    if simulations == 0:
        policy, value = judged(evaluator, board)
        return {"column": max(board.legal, key=lambda column: policy[column]), "value": value}

    def evaluate(planes: Any, legal: Any) -> tuple[Any, Any]:
        found = evaluator(planes, legal)
        return np.log(np.maximum(found.policy, 1e-9)), found.value

    search = Puct([board], evaluate, width=min(WIDTH, simulations), nodes=simulations + 2)
    search.run(simulations)
    visits = search.visits()[0]
    return {"column": int(search.best()[0]), "value": float(search.q()[0][visits.argmax()])}


def looked(net: "BoardNet", board: "Board", square: int) -> list[dict[str, Any]]:
    """Every head of every attention layer: its weights from a square, and on what kinds of squares all its weight lies.

    square      row · columns + column, row 0 on top
    """
    import torch

    import regard

    planes = torch.from_numpy(planes_of(board)[0])[None]
    with regard.watch(net) as seen, torch.no_grad():
        net(planes)
    found = []
    for layer, call in enumerate(seen.calls):
        weights = call.weights()[0].double()  # (heads, S, S)
        visible = weights > 0
        even = visible.double() / visible.sum(-1, keepdim=True)
        where = kinds(board).to(weights.dtype)  # (kinds, S, S)
        shares = torch.einsum("hqk,nqk->hn", weights, where) / weights.shape[-1]
        chances = torch.einsum("hqk,nqk->hn", even, where) / weights.shape[-1]
        from_here = torch.einsum("hk,nk->hn", weights[:, square], where[:, square])
        for head in range(weights.shape[0]):
            found.append(
                {
                    "layer": layer,
                    "head": head,
                    "sees": net.config.sees[head * len(net.config.sees) // weights.shape[0]],
                    "weights": [round(x, 6) for x in weights[head, square].tolist()],
                    "shares": dict(zip(KINDS, shares[head].tolist(), strict=True)),
                    "chances": dict(zip(KINDS, chances[head].tolist(), strict=True)),
                    "here": dict(zip(KINDS, from_here[head].tolist(), strict=True)),
                }
            )
    return found


def kinds(board: "Board") -> Any:
    """(kinds, S, S): whether a square (last index) is of a kind, seen from another.

    >>> from regard.connectx import Board
    >>> kinds(Board.from_moves("4")).sum((1, 2)).tolist()[-2:]  # nobody's own yet; one stone, seen from 42 squares
    [0, 42]
    """
    import torch

    from regard.models import sight

    size = board.rows, board.columns
    other = ~torch.eye(size[0] * size[1], dtype=torch.bool)
    lines = [sight(kind, *size) & other for kind in ("row", "column", "diagonals", "near3")]
    stones = torch.tensor(board.kaggle())
    mine, theirs = (stones == player for player in (board.turn, 3 - board.turn))
    return torch.stack([*lines, mine.expand_as(other), theirs.expand_as(other)])
