"""Batches of boards equal single boards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.connectx import Board, Boards, VectorEnv
from regard.connectx.game.board_batch import checked_shape

SIZES = st.sampled_from([(6, 7, 4), (7, 8, 4), (4, 5, 3), (1, 9, 2), (5, 3, 5), (3, 16, 4), (6, 9, 5)])


@settings(max_examples=25)
@given(SIZES, st.integers(0, 1000))
def test_a_batch_equals_single_boards(size: tuple[int, int, int], seed: int) -> None:
    rows, columns, _ = size
    lot = np.random.default_rng(seed)
    boards = Boards(5, *size)
    singles = [Board(*size) for _ in range(5)]
    ended = [False] * 5
    for _ in range(rows * columns + 3):
        chosen = lot.integers(-1, columns + 1, 5)  # some of them illegal
        status = boards.step(chosen)
        for at, board in enumerate(singles):
            if ended[at]:
                continue
            if int(chosen[at]) in board.legal:
                singles[at] = board.play(int(chosen[at]))
                expected = 1 if singles[at].winner else 2 if singles[at].over else 0
            else:
                expected = 3
            assert status[at] == expected
            ended[at] = expected != 0
        planes, legal = boards.planes(), boards.legal()
        for at, board in enumerate(singles):
            assert boards[at] == board
            own, other = (
                np.array(board.kaggle()).reshape(rows, columns) == mark for mark in (board.turn, 3 - board.turn)
            )
            assert (planes[at, 0] == own).all()
            assert (planes[at, 1] == other).all()
            assert np.flatnonzero(legal[at]).tolist() == board.legal
    assert boards.stones().tolist() == [board.stones for board in singles]


def test_a_huge_size_is_rejected_before_its_integers_are_computed() -> None:
    with pytest.raises(ValueError, match=r"need \(rows \+ 1\)·columns ≤ 64"):
        checked_shape(10**18, 1, 4)


def test_random_play_is_legal_and_reaches_every_column() -> None:
    boards = Boards(500, seed=1)
    first = boards.random_columns().copy()
    assert set(first.tolist()) == set(range(7))
    for _ in range(42):
        running = boards.status == 0
        assert boards.legal()[np.arange(500), boards.random_columns()][running].all()
        boards.step(boards.random_columns())
        assert not (boards.status == 3).any()
    assert (boards.status != 0).all()
    again = Boards(500, seed=1)
    assert (again.random_columns() == first).all()


def test_finished_boards_restart_with_auto_reset() -> None:
    boards = Boards(2, 4, 4, 2, auto_reset=True)
    for columns in ([0, 0], [3, 3], [0, 2]):
        boards.step(columns)
    assert boards.status.tolist() == [1, 1 if boards[1].winner else 0]
    boards.step([1, 1])
    assert boards.status[0] == 0
    assert boards[0] == Board(4, 4, 2).play(1)


def test_a_batch_of_given_boards() -> None:
    given_boards = [Board.from_moves("112233"), Board.from_moves("1212121"), Board()]
    boards = Boards.of(given_boards)
    assert [boards[at] for at in range(3)] == given_boards
    assert boards.status.tolist() == [0, 1, 0]
    assert boards.step([3, 3, 3]).tolist() == [1, 1, 0]
    assert boards[1] == given_boards[1]


def test_the_environment_for_training() -> None:
    env = VectorEnv(64, seed=0)
    planes, legal = env.reset()
    assert planes.shape == (64, 2, 6, 7)
    assert legal.all()
    before, ends = env.boards.stones(), 0
    for _ in range(100):
        step = env.step(env.random_columns())
        after = env.boards.stones()
        assert (after[step.done] == 0).all()
        assert (after[~step.done] == before[~step.done] + 1).all()
        assert (step.reward[~step.done] == 0).all()
        assert ((step.reward == 1) | env.drawn)[step.done].all()
        assert (step.planes.sum((1, 2, 3)) == after).all()
        before, ends = after, ends + step.done.sum()
    assert ends > 64
    illegal = env.step(np.full(64, 7))
    assert (illegal.reward == -1).all()
    assert illegal.done.all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Boards(0), "count must be at least 1, got 0"),
        (lambda: Boards(2, 9, 9), "need (rows + 1)·columns ≤ 64, got (9 + 1)·9 = 90"),
        (lambda: Boards(2).step([1]), "columns must be 2 integers"),
        (lambda: Boards(2).step([0.5, 1.0]), "columns must be 2 integers"),
        (lambda: Boards(2).planes(np.zeros((2, 2, 6, 7))), "contiguous float32"),
        (lambda: Boards.of([Board(), Board(5)]), "got 2 sizes of 2 boards"),
    ],
)
def test_bad_input(wrong: object, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        wrong()  # type: ignore[operator]
    assert message in str(error.value)
