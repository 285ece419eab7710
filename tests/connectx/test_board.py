"""One board: the rules against a plain reference, and every form it is written in."""

import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.connectx import Board
from regard.connectx.game.bitboard import (
    board_shape,
    completing_squares,
    fits_in_64_bits,
    has_line,
    playable_squares,
    popcount,
    sensible_moves,
)
from regard.numba_functions import uncompiled
from support import plain_connectx as plain

SIZES = st.tuples(st.integers(1, 7), st.integers(1, 9), st.integers(1, 5))


@st.composite
def games(draw: st.DrawFn) -> tuple[tuple[int, int, int], list[int]]:
    """A size, and legal moves on it until the game is over or some time before."""
    size = draw(SIZES)
    lot = random.Random(draw(st.integers(0, 10**6)))
    moves: list[int] = []
    board = Board(*size)
    length = draw(st.integers(0, size[0] * size[1]))
    while not board.over and len(moves) < length:
        moves.append(lot.choice(board.legal))
        board = board.play(moves[-1])
    return size, moves


@given(games())
def test_the_rules(game: tuple[tuple[int, int, int], list[int]]) -> None:
    (rows, columns, inarow), moves = game
    board, grid = Board(rows, columns, inarow), plain.empty(rows, columns)
    for number, column in enumerate(moves):
        assert board.turn == 1 + number % 2
        assert not board.over
        assert board.legal == plain.legal(grid)
        board, grid = board.play(column), plain.drop(grid, column, 1 + number % 2)
        assert board.kaggle() == plain.kaggle(grid)
        won = plain.has_line(grid, 1 + number % 2, inarow)
        assert board.winner == (1 + number % 2 if won else None)
        assert board.over == (won or not plain.legal(grid))
    assert board.stones == len(moves)
    if board.over:
        assert board.legal == [] or board.winner is None


@given(games())
def test_forms_convert_into_each_other(game: tuple[tuple[int, int, int], list[int]]) -> None:
    size, moves = game
    board = Board.from_moves(moves, *size)
    assert Board.from_moves(board.moves, *size) == board
    rebuilt = Board.from_kaggle(board.kaggle(), *size)
    assert rebuilt == board
    assert hash(rebuilt) == hash(board)
    assert rebuilt.winner == board.winner
    assert Board.from_moves(rebuilt.moves, *size) == board  # other moves, perhaps, but they lead there
    assert Board.from_text(board.text(), size[2]) == board
    assert Board.from_bits(board.position, board.mask, *size) == board
    unchecked = Board.from_kaggle(board.kaggle(), *size, check=False)
    assert (unchecked, unchecked.winner) == (board, board.winner)
    for one in (board, rebuilt, unchecked):
        assert eval(repr(one), {"Board": Board}) == board
    loaded = pickle.loads(pickle.dumps(board))
    assert (loaded, loaded.moves, loaded.winner) == (board, board.moves, board.winner)
    mirrored = board.mirror()
    assert mirrored.mirror() == board
    assert mirrored.winner == board.winner
    assert [mirrored.kaggle()[at : at + size[1]] for at in range(0, size[0] * size[1], size[1])] == [
        board.kaggle()[at : at + size[1]][::-1] for at in range(0, size[0] * size[1], size[1])
    ]
    if moves:
        assert board.undo() == Board.from_moves(moves[:-1], *size)


@given(games())
def test_the_framed_text_can_be_read_back(game: tuple[tuple[int, int, int], list[int]]) -> None:
    size, moves = game
    board = Board.from_moves(moves, *size)
    drawn = str(board.__rich__())
    # A board of one row has the same width as its numbers: only there could numbers be taken for stones.
    assert Board.from_text("\n".join(drawn.splitlines()[1:]), size[2]) == board


@given(games())
def test_bits(game: tuple[tuple[int, int, int], list[int]]) -> None:
    size, moves = game
    board = Board.from_moves(moves, *size)
    one = board_shape(*size)
    empty = playable_squares(board.mask, one)
    assert popcount(empty) == sum(mark == 0 for mark in board.kaggle()[: size[1]])
    for function, arguments in (
        (has_line, (board.position, one)),
        (completing_squares, (board.position, one)),
        (sensible_moves, (board.position, board.mask, one)),
        (popcount, (board.mask,)),
    ):
        assert uncompiled(function)(*arguments) == function(*arguments)
    if not board.over:
        winning = [c for c in board.legal if board.play(c).winner]
        mine = completing_squares(board.position, one) & empty
        assert winning == [c for c in range(size[1]) if mine >> c * one.stride & ((1 << size[0]) - 1)]


def test_large_boards_play_by_the_same_rules() -> None:
    board = Board(12, 20, 6)
    assert not fits_in_64_bits(board.shape)
    lot = random.Random(3)
    grid = plain.empty(12, 20)
    while not board.over:
        column, player = lot.choice(board.legal), board.turn
        board, grid = board.play(column), plain.drop(grid, column, player)
        assert (board.winner == player) == plain.has_line(grid, player, 6)
    assert Board.from_moves(board.moves, 12, 20, 6) == board
    assert "k" in board.moves  # column 20


IMPOSSIBLE = {
    "floats": ". . .\n. X .\n. . .",
    "as many stones as player 2 or one more, got 2 and 0": "X X . .",
    "got 0 and 1": "O . . .",
    "both players have 4 in a row": "X X X X\nO O O O",
    "player 1 has 4 in a row, but player 2 moved last": "O O O . .\nX X X X O",
    "no order of moves leads to it": "O\nO\nX\nX",
}


@pytest.mark.parametrize("complaint", IMPOSSIBLE)
def test_impossible_boards(complaint: str) -> None:
    with pytest.raises(ValueError, match="impossible board") as error:
        Board.from_text(IMPOSSIBLE[complaint])
    assert complaint in str(error.value)


def test_only_the_last_move_may_complete_a_line() -> None:
    # Two lines of X without a common stone: one of them must have been there before.
    with pytest.raises(ValueError, match="no order of moves"):
        Board.from_text(". . . . O . .\nX X X X O O O\nX X X X O O O")


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: Board().play(7), ValueError, "column must be 0 to 6 in code (1 to 7 in move strings), got 7"),
        (lambda: Board().play(-1), ValueError, "got -1"),
        (lambda: Board().play("3"), TypeError, "column must be an int, got '3'"),
        (lambda: Board.from_moves("4444444"), ValueError, "cannot play '4' as move 7 of '4444444': column 3 is full"),
        (lambda: Board.from_moves("48"), ValueError, "there are only columns 1 to 7"),
        (lambda: Board.from_moves("4?"), ValueError, "columns are written 1 to 9, then a to z"),
        (lambda: Board.from_moves("12121212"), ValueError, "player 1 has won"),
        (lambda: Board(1, 2, 3).play(0).play(1).play(0), ValueError, "the board is full"),
        (lambda: Board(0), ValueError, "rows must be at least 1, got 0"),
        (lambda: Board(6.0), TypeError, "rows must be an int, got 6.0"),
        (lambda: Board(columns=36), ValueError, "at most 35"),
        (lambda: Board.from_kaggle([0] * 41), ValueError, "has 42 squares, got 41"),
        (lambda: Board.from_kaggle([3] + [0] * 41), ValueError, "squares must be 0, 1 or 2, got 3 at index 0"),
        (lambda: Board.from_text("X Y"), ValueError, "got 'Y'"),
        (lambda: Board.from_text(""), ValueError, "got none"),
        (lambda: Board.from_text("X O\n."), ValueError, "of one length, got 2 and 1"),
        (lambda: Board.from_bits(2, 1), ValueError, "position must be a subset of mask"),
        (lambda: Board().undo(), ValueError, "moves must be 0 to 0, the moves played so far, got 1"),
    ],
)
def test_invalid_input_is_explained(wrong: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        wrong()  # type: ignore[operator]
    assert message in str(raised.value)
