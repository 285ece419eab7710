"""Evaluation of a position by a board network, and the attention of each of its heads.

The attention of a head from one square is a distribution over all squares. Its share on squares of a kind (same row,
own stones, …) is compared with chance: the share under uniform weights over the squares that the head can see. Kinds
overlap. The square itself is counted as an own stone or one of the opponent, but not in its row, column, diagonals or
neighbourhood.
"""

import json
import threading
from functools import lru_cache
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.files import explain_damage, read_json

if TYPE_CHECKING:
    from regard.connectx import Board, NetworkPlayer
    from regard.models import BoardNet

KINDS = ("row", "column", "diagonal", "local", "own", "opponent")
DEFAULT_NETWORK = "four"
MEMORY = "memory.table"

_load_lock = threading.Lock()


def find_network(folder: Path | None) -> Path | None:
    """Return the folder of the network to show: the given folder, else that of a shipped network, else None."""
    if folder is not None:
        return folder
    shipped = Path(str(files("regard.connectx"))) / "networks"
    folders = sorted(file.parent for file in shipped.glob("*/model.json"))
    return next((one for one in folders if one.name == DEFAULT_NETWORK), folders[0] if folders else None)


def describe_network(folder: Path) -> dict[str, Any]:
    """Return the architecture and size of a network, read from its files without loading it.

    `memory` contains rows, columns and stones of the positions whose solution is stored in the network, and the number
    of parameters of that opening table; None for a network without such a table.
    """
    explanation = "a network of regard connectx train", "give the folder of another one"
    saved = read_json(folder / "model.json", *explanation, "kind", "config")
    with explain_damage(folder, *explanation):
        config = saved["config"]
        every = config.get("attn_every")
        sizes = _parameter_counts(folder / "model.safetensors")
        return {
            "name": folder.name,
            "kind": saved["kind"],
            "channels": config["channels"],
            "blocks": config["layers"],
            "layers": 0 if every is None else config["layers"] // every,
            "heads": config["heads"],
            "parameters": sum(sizes.values()) - sizes.get(MEMORY, 0),
            "memory": [*config.get("opening_table", config.get("memory", ())), sizes[MEMORY]]
            if MEMORY in sizes
            else None,
        }


def _parameter_counts(file: Path) -> dict[str, int]:
    """Return the number of learnt parameters by name, from the file's header; running statistics are left out."""
    with file.open("rb") as stream:
        tensors = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return {
        name: prod(tensor["shape"])
        for name, tensor in tensors.items()
        if name != "__metadata__" and not name.endswith((".mean", ".variance"))
    }


def load_board_network(folder: Path) -> tuple["BoardNet", "NetworkPlayer"]:
    """Return the network in a folder, as a model and as a player; cached until the file changes."""
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    with _load_lock:
        return _load(folder, stamp)


@lru_cache(maxsize=2)
def _load(folder: Path, _: int) -> tuple["BoardNet", "NetworkPlayer"]:
    from regard.connectx import NetworkPlayer, load_network
    from regard.models import Evaluator

    net = load_network(folder).eval()
    evaluator = Evaluator(net, mirror=True)
    in_table = evaluator.in_table if net.config.opening_table else None
    return net, NetworkPlayer(evaluator, search_evaluator=evaluator.without_mirror(), in_table=in_table)


def network_move(player: "NetworkPlayer", board: "Board", simulations: int) -> dict[str, Any]:
    """Return the network's move: its most probable column, or the most visited one of a search."""
    if simulations == 0:
        policy, value = player.evaluate(board)
        return {"column": max(board.legal, key=lambda column: policy[column]), "value": value}
    search = player.search(board, simulations)
    column = int(search.best()[0])
    return {"column": column, "value": float(search.q()[0][column])}


def attention_by_head(net: "BoardNet", board: "Board", square: int) -> list[dict[str, Any]]:
    """Return for every head its weights from one square, and the share of all its weight on each kind of square.

    square      row · columns + column; row 0 is the top row
    """
    import torch

    import regard

    squares = torch.tensor(board.kaggle()).view(board.rows, board.columns)
    planes = torch.stack([squares == board.turn, squares == 3 - board.turn])[None].float()
    with regard.watch(net) as seen, torch.no_grad():
        net(planes)
    heads = []
    for layer, call in enumerate(seen.calls):
        weights = call.weights()[0].double()  # (heads, S, S)
        visible = weights > 0
        uniform = visible.double() / visible.sum(-1, keepdim=True)
        kinds = square_kinds(board).to(weights.dtype)  # (kinds, S, S)
        shares = torch.einsum("hqk,nqk->hn", weights, kinds) / weights.shape[-1]
        chances = torch.einsum("hqk,nqk->hn", uniform, kinds) / weights.shape[-1]
        from_here = torch.einsum("hk,nk->hn", weights[:, square], kinds[:, square])
        for head in range(weights.shape[0]):
            heads.append(
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
    return heads


def square_kinds(board: "Board") -> Any:
    """Return a boolean tensor (kinds, S, S): whether a square (last index) is of a kind, seen from another square.

    >>> from regard.connectx import Board
    >>> square_kinds(Board.from_moves("4")).sum((1, 2)).tolist()[-2:]  # own stones: 0; opponent's: 1, from 42 squares
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
