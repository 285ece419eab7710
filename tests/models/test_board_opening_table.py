"""Opening table: which positions it covers, which entries they read, folding and saving."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.connectx import Board
from regard.models import BoardConfig, BoardNet, load, save


def planes_of(*boards: Board) -> Tensor:
    squares = torch.stack([torch.tensor(board.kaggle()).view(board.rows, board.columns) for board in boards])
    turn = torch.tensor([board.turn for board in boards])[:, None, None]
    return torch.stack([squares == turn, squares == 3 - turn], 1).float()


@pytest.fixture
def net() -> BoardNet:
    torch.manual_seed(0)
    made = BoardNet("tiny", opening_table=(6, 7, 6), opening_table_bits=14).eval()
    assert made.opening_table is not None
    with torch.no_grad():
        made.opening_table.table.normal_()
    return made


def test_the_table_covers_positions_with_few_stones_on_its_board_size(net: BoardNet) -> None:
    assert net.opening_table is not None
    few, many, other = Board.from_moves("443526"), Board.from_moves("4435261"), Board.from_moves("443526", 5, 8, 4)
    assert net.opening_table(planes_of(few, many)).ne(0).flatten().tolist() == [True, False]
    assert net.opening_table.covers(planes_of(few, many)).tolist() == [True, False]
    assert net.opening_table(planes_of(other)).item() == 0
    assert not net.opening_table.covers(planes_of(other)).item()
    without_table = BoardNet("tiny").eval()
    without_table.load_state_dict(
        {name: value for name, value in net.state_dict().items() if "opening_table" not in name}
    )
    for board, same in ((few, False), (many, True), (other, True)):
        here, there = net(planes_of(board)), without_table(planes_of(board))
        assert torch.equal(here.policy, there.policy)
        assert torch.equal(here.value, there.value) == same


@pytest.mark.parametrize("moves", ["", "4", "44", "1", "123", "445566", "1717", "112233"])
def test_mirror_images_read_the_same_entries(net: BoardNet, moves: str) -> None:
    assert net.opening_table is not None
    planes = planes_of(Board.from_moves(moves))
    here, there = net.opening_table.indices(planes), net.opening_table.indices(planes.flip(-1))
    assert here.sort().values.equal(there.sort().values)
    assert torch.allclose(net.opening_table(planes), net.opening_table(planes.flip(-1)), atol=1e-5)


def test_different_positions_read_different_entries(net: BoardNet) -> None:
    """Owner, height and column of a stone change the entries, except for hash collisions."""
    assert net.opening_table is not None
    some = [Board.from_moves(moves) for moves in ("4", "3", "44", "43", "34", "4343", "3443", "4433")]
    found = [set(row.tolist()) for row in net.opening_table.indices(planes_of(*some))]
    for number, one in enumerate(found):
        assert all(len(one - another) > 3 for another in found[:number])


def test_folding_and_saving_keep_the_table(net: BoardNet, tmp_path: Path) -> None:
    planes = planes_of(Board.from_moves("4435"), Board.from_moves("1"))
    expected = net(planes).value
    assert torch.allclose(net.for_inference()(planes).value, expected, atol=1e-5)
    save(net, tmp_path)
    again = load(tmp_path)
    assert isinstance(again, BoardNet)
    assert again.config == net.config
    assert torch.equal(again(planes).value, expected)


def test_only_the_entries_of_a_position_have_gradients(net: BoardNet) -> None:
    assert net.opening_table is not None
    planes = planes_of(Board.from_moves("4435"))
    net(planes).value.sum().backward()
    gradient = net.opening_table.table.grad
    assert gradient is not None
    assert set(gradient.nonzero().flatten().tolist()) == set(net.opening_table.indices(planes).flatten().tolist())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"opening_table": (6, 7)}, r"opening_table must be \(rows, columns, stones\)"),
        ({"opening_table": (6, 7, 0)}, "three whole numbers above 0"),
        ({"opening_table": (6, 7, 10), "planes": 3}, "needs planes=2"),
        ({"opening_table": (10, 7, 10)}, "at most 9 rows and 12 columns"),
        ({"opening_table": (6, 7, 10), "opening_table_bits": 40}, r"at most 2\^28 entries"),
        ({"opening_table": (6, 7, 10), "opening_table_bits": 0}, "opening_table_bits"),
    ],
)
def test_invalid_opening_tables_are_rejected(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        BoardConfig.preset("tiny", **changes)
