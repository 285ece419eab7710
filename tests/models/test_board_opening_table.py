"""What a network knows of openings by heart: of what it speaks, and that it is the same whatever way it is used."""

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


def test_it_speaks_of_few_stones_on_its_own_board_alone(net: BoardNet) -> None:
    assert net.opening_table is not None
    few, many, other = Board.from_moves("443526"), Board.from_moves("4435261"), Board.from_moves("443526", 5, 8, 4)
    assert net.opening_table(planes_of(few, many)).ne(0).flatten().tolist() == [True, False]
    assert net.opening_table.covers(planes_of(few, many)).tolist() == [True, False]
    assert net.opening_table(planes_of(other)).item() == 0
    assert not net.opening_table.covers(planes_of(other)).item()
    forgetful = BoardNet("tiny").eval()
    forgetful.load_state_dict({name: value for name, value in net.state_dict().items() if "opening_table" not in name})
    for board, same in ((few, False), (many, True), (other, True)):
        here, there = net(planes_of(board)), forgetful(planes_of(board))
        assert torch.equal(here.policy, there.policy)
        assert torch.equal(here.value, there.value) == same


@pytest.mark.parametrize("moves", ["", "4", "44", "1", "123", "445566", "1717", "112233"])
def test_mirror_images_find_the_same_numbers(net: BoardNet, moves: str) -> None:
    assert net.opening_table is not None
    planes = planes_of(Board.from_moves(moves))
    here, there = net.opening_table.indices(planes), net.opening_table.indices(planes.flip(-1))
    assert here.sort().values.equal(there.sort().values)
    assert torch.allclose(net.opening_table(planes), net.opening_table(planes.flip(-1)), atol=1e-5)


def test_other_positions_find_other_numbers(net: BoardNet) -> None:
    """Whose stone it is, how high it lies and in which column: each gives other places, but for chance."""
    assert net.opening_table is not None
    some = [Board.from_moves(moves) for moves in ("4", "3", "44", "43", "34", "4343", "3443", "4433")]
    found = [set(row.tolist()) for row in net.opening_table.indices(planes_of(*some))]
    for number, one in enumerate(found):
        assert all(len(one - another) > 3 for another in found[:number])


def test_a_network_that_is_folded_or_saved_remembers(net: BoardNet, tmp_path: Path) -> None:
    planes = planes_of(Board.from_moves("4435"), Board.from_moves("1"))
    expected = net(planes).value
    assert torch.allclose(net.for_inference()(planes).value, expected, atol=1e-5)
    save(net, tmp_path)
    again = load(tmp_path)
    assert isinstance(again, BoardNet)
    assert again.config == net.config
    assert torch.equal(again(planes).value, expected)


def test_it_learns_what_it_is_shown_and_nothing_else(net: BoardNet) -> None:
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
def test_a_memory_that_cannot_be_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        BoardConfig.preset("tiny", **changes)
