"""What a board network thinks of a position, and what each of its heads looks at.

A head's attention from a square is a share of weight for every square. How much of it falls on squares of a kind (the
same row, the own stones, …) is measured beside chance: what would fall there if the head spread its weight evenly over
the squares that it can see. Kinds overlap, and the square itself belongs to none but the stones.
"""

import json
import threading
from functools import lru_cache
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.connectx import Board, Network
    from regard.models import BoardNet

KINDS = ("row", "column", "diagonal", "local", "own", "opponent")
SHIPPED = "four"
MEMORY = "memory.table"

_loading = threading.Lock()


def find_network(given: Path | None) -> Path | None:
    """The folder of the network to show: the one that was given, or one that comes with regard; None without."""
    if given is not None:
        return given
    shipped = Path(str(files("regard.connectx"))) / "networks"
    found = sorted(file.parent for file in shipped.glob("*/model.json"))
    return next((folder for folder in found if folder.name == SHIPPED), found[0] if found else None)


def described(folder: Path) -> dict[str, Any]:
    """What a network is made of, read from its files without loading it. `memory`: rows, columns and stones of the
    positions that it knows by heart, and how many numbers that takes; None without."""
    words = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    config = words["config"]
    every = config.get("attn_every")
    layers = 0 if every is None else config["layers"] // every
    sizes = _sizes(folder / "model.safetensors")
    return {
        "name": folder.name,
        "kind": words["kind"],
        "channels": config["channels"],
        "blocks": config["layers"],
        "layers": layers,
        "heads": config["heads"],
        "parameters": sum(sizes.values()) - sizes.get(MEMORY, 0),
        "memory": [*config.get("memory", ()), sizes[MEMORY]] if MEMORY in sizes else None,
    }


def _sizes(file: Path) -> dict[str, int]:
    """How many numbers are learnt, by name, as the file's first line has it; what norms have counted is in it, too, and
    is not."""
    with file.open("rb") as stream:
        tensors = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return {
        name: prod(about["shape"])
        for name, about in tensors.items()
        if name != "__metadata__" and not name.endswith((".mean", ".variance"))
    }


def loaded(folder: Path) -> tuple["BoardNet", "Network"]:
    """The network of a folder, as a model and as a player; kept once loaded."""
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    with _loading:
        return _loaded(folder, stamp)


@lru_cache(maxsize=2)
def _loaded(folder: Path, _: int) -> tuple["BoardNet", "Network"]:
    from regard.connectx import Network, load_network
    from regard.models import Evaluator

    net = load_network(folder).eval()
    evaluator = Evaluator(net, mirror=True)
    return net, Network(evaluator, within=evaluator.without_mirror(), opening_table=net.config.opening_table)


def chosen(player: "Network", board: "Board", simulations: int) -> dict[str, Any]:
    """The network's move: its likeliest column, or the one that a search of so many walks visits most."""
    if simulations == 0:
        policy, value = player.judged(board)
        return {"column": max(board.legal, key=lambda column: policy[column]), "value": value}
    search = player.search(board, simulations)
    column = int(search.best()[0])
    return {"column": column, "value": float(search.q()[0][column])}


def looked(net: "BoardNet", board: "Board", square: int) -> list[dict[str, Any]]:
    """Every head of every attention layer: its weights from a square, and on what kinds of squares all its weight lies.

    square      row · columns + column, row 0 on top
    """
    import torch

    import regard

    squares = torch.tensor(board.kaggle()).view(board.rows, board.columns)
    planes = torch.stack([squares == board.turn, squares == 3 - board.turn])[None].float()
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

    from regard.models import attention_pattern

    size = board.rows, board.columns
    other = ~torch.eye(size[0] * size[1], dtype=torch.bool)
    lines = [attention_pattern(kind, *size) & other for kind in ("row", "column", "diagonals", "near3")]
    stones = torch.tensor(board.kaggle())
    mine, theirs = (stones == player for player in (board.turn, 3 - board.turn))
    return torch.stack([*lines, mine.expand_as(other), theirs.expand_as(other)])
