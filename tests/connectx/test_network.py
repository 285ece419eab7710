"""The network as a player: alone and with a search, by name, in the arena's protocol, in NumPy, and as a submission."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.connectx import Board, NetworkPlayer, Player, Puct, load_network, player
from regard.connectx.arena.move_quality import grade_positions
from regard.connectx.kaggle.numpy_network import NumpyNetwork, pack_network
from regard.connectx.kaggle.write_submission import export
from regard.connectx.players.network_player import _planes
from regard.connectx.players.registry import budget_of, parse_name
from regard.models import BoardNet, Evaluator, save
from support.submissions import BOARDS, answers


@pytest.fixture(scope="module")
def net() -> BoardNet:
    torch.manual_seed(3)
    made = BoardNet("tiny", channels=16, layers=2, attn_every=1, score="columns", lines=4)
    made.train()
    for _ in range(3):  # norms that are not those of the first day
        made((torch.rand(32, 2, 6, 7) < 0.3).float())
    return made.eval()


@pytest.fixture(scope="module")
def folder(net: BoardNet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("networks") / "one"
    save(net, path)
    return path


def test_without_search_the_most_probable_legal_column_is_played(net: BoardNet) -> None:
    seat = NetworkPlayer(Evaluator(net, mirror=True))
    assert isinstance(seat, Player)
    board = Board.from_moves("444444555555")
    policy, value = seat.evaluate(board)
    assert policy[3] == policy[4] == 0
    assert sum(policy) == pytest.approx(1, abs=1e-5)
    assert -1 <= value <= 1
    chosen = seat.choose(board)
    assert type(chosen) is int
    assert chosen == int(np.argmax(policy))


def test_mirrored_boards_get_mirrored_moves(net: BoardNet) -> None:
    seat = NetworkPlayer(Evaluator(net, mirror=True))
    board = Board.from_moves("12334")
    assert seat.choose(board.mirror()) == 6 - seat.choose(board)


@pytest.mark.parametrize(("moves", "column"), [("112233", 3), ("1212133", 0)])
def test_with_search_immediate_wins_and_threats_are_found(net: BoardNet, moves: str, column: int) -> None:
    assert NetworkPlayer(Evaluator(net), 60).choose(Board.from_moves(moves)) == column
    assert NetworkPlayer(Evaluator(net), seconds=0.2).choose(Board.from_moves(moves)) == column


def test_names(folder: Path, net: BoardNet) -> None:
    assert parse_name("network:300") == ("network", "", "300")
    assert budget_of("network:300") == (300, None)
    assert parse_name(f"network:{folder}:50ms") == ("network", str(folder), "50ms")
    assert budget_of(f"network:{folder}:50ms") == (None, 0.05)
    seat = player(f"network:{folder}:20")
    assert seat.name == f"network:{folder}:20"
    board = Board.from_moves("4455")
    assert seat.choose(board) in board.legal
    alone = player(f"network:{folder}")
    assert alone.choose(board) == NetworkPlayer(Evaluator(net, mirror=True)).choose(board)
    with pytest.raises(ValueError, match="contains no network"):
        player("network:nowhere")
    with pytest.raises(ValueError, match="must be greater than 0"):
        player(f"network:{folder}:0")


@pytest.mark.parametrize("amount", ["", ":40"])
def test_choose_all_equals_choose_on_each_board(folder: Path, amount: str) -> None:
    seat = player(f"network:{folder}{amount}")
    assert isinstance(seat, NetworkPlayer)
    boards = [Board.from_moves(moves) for moves in ("", "44", "4455", "1234567", "44444", "765432112")]
    assert seat.choose_all(boards) == [seat.choose(board) for board in boards]
    known: list[tuple[Board, list[int | None]]] = [(board, [0, 1, 1, 1, 0, 0, -1]) for board in boards]
    heard: list[int] = []
    grades = grade_positions(seat, known, lambda: heard.append(1))
    assert (grades.moves, len(heard)) == (len(boards), len(boards))
    assert seat.choose_all([]) == []


def uniform(planes: np.ndarray, legal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return legal / legal.sum(1, keepdims=True), np.zeros(len(legal))


def test_proven_values_go_up_the_tree() -> None:
    """An open three wins at one end if the other is blocked; the search proves it instead of estimating."""
    board = Board.from_moves("4151")  # X has 4 and 5 in the bottom row, O two in column 1
    search = Puct([board], uniform)
    search.run(600)
    best = int(search.best()[0])
    assert best in (2, 5)  # three in a row, open at both ends
    assert search.q()[0][best] == 1


def test_a_move_is_chosen_in_a_lost_position() -> None:
    board = Board.from_moves("41516")  # second to move: X has an open three
    search = Puct([board], uniform)
    search.run(400)
    assert int(search.best()[0]) in board.legal


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("size", [(6, 7), (4, 5)])
def test_numpy_agrees_with_torch(net: BoardNet, plain: bool, size: tuple[int, int]) -> None:
    inference = net.for_inference()
    weights = {name: value.numpy() for name, value in inference.state_dict().items()}
    forward = NumpyNetwork(pack_network(asdict(inference.config), weights), plain=plain)
    random = np.random.default_rng(0)
    squares = random.integers(0, 3, (20, *size))
    planes = np.stack([squares == 1, squares == 2], 1).astype(np.float32)
    legal = random.random((20, size[1])) < 0.8
    legal[:, 0] = True
    here, there = forward(planes, legal), Evaluator(net, mirror=True)(planes, legal)
    assert np.abs(here.policy - there.policy).max() < 2e-3  # float16
    assert np.abs(here.value - there.value).max() < 2e-3
    assert there.score is not None
    assert np.abs(here.score - there.score).max() < 2e-3
    here, there = forward.one_sided(planes, legal), Evaluator(net)(planes, legal)
    assert np.abs(here.policy - there.policy).max() < 2e-3
    assert np.abs(here.value - there.value).max() < 2e-3


def test_a_packed_network_keeps_its_opening_table(folder: Path) -> None:
    net = BoardNet(load_network(folder).config, opening_table=(6, 7, 6), opening_table_bits=12).eval()
    assert net.opening_table is not None
    with torch.no_grad():
        net.opening_table.table.normal_(std=0.2)
    inference = net.for_inference()
    weights = {name: value.numpy() for name, value in inference.state_dict().items()}
    forward = NumpyNetwork(pack_network(asdict(inference.config), weights))
    for size in ((6, 7, 4), (5, 6, 4)):
        boards = [Board.from_moves(moves, *size) for moves in ("", "4", "344", "3465", "123456", "1234561")]
        planes, legal = (np.stack(parts) for parts in zip(*map(_planes, boards), strict=True))
        assert np.abs(forward(planes, legal).value - Evaluator(net, mirror=True)(planes, legal).value).max() < 2e-3
        silent = np.abs(forward._table_values(planes)) == 0
        assert silent.tolist() == ([False] * 5 + [True] if size == (6, 7, 4) else [True] * 6)


def test_networks_that_cannot_be_packed_are_rejected(net: BoardNet) -> None:
    weights = {name: value.numpy() for name, value in net.state_dict().items()}
    with pytest.raises(ValueError, match="cannot be exported"):
        pack_network(asdict(net.config), weights)


def test_the_error_of_load_network_lists_the_networks(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="contains no network"):
        load_network(tmp_path)


@pytest.mark.parametrize("amount", ["", ":60"])
@pytest.mark.parametrize("numba", ["with", "without"])
def test_an_exported_network_plays_legal_moves(folder: Path, amount: str, numba: str, tmp_path: Path) -> None:
    file = export(f"network:{folder}{amount}", tmp_path / "submission.py")
    assert file.stat().st_size < 300_000
    too_large = "regard: played by the fallback with 4 stones: ValueError: batches and networks need"  # 9×9
    found = answers(file, numba, BOARDS, tmp_path, too_large if amount else "")
    assert all(column in board.legal for column, board in zip(found, BOARDS, strict=True))
    if amount:
        assert found[1:3] == [3, 0]
