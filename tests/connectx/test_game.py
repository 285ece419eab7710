"""A game in the terminal."""

from collections.abc import Iterator
from io import StringIO

import pytest
from rich.console import Console

from regard.connectx import Board, play_in_terminal, player
from regard.connectx.players.terminal_game import hint_text, outcome_word


def played(answers: list[str], board: Board | None = None, **options: object) -> tuple[Board, str]:
    """Return the final board and everything that was printed, as plain text."""
    said: Iterator[str] = iter(answers)

    def ask(prompt: str) -> str:
        try:
            return next(said)
        except StopIteration:
            raise EOFError from None

    console = Console(file=StringIO(), width=100, color_system=None, highlight=False)
    end = play_in_terminal(player("greedy"), board or Board(), console=console, ask=ask, **options)  # type: ignore[arg-type]
    assert isinstance(console.file, StringIO)
    return end, console.file.getvalue()


def test_a_game_to_its_end() -> None:
    board, shown = played(["4"], Board.from_moves("112233"))
    assert board.winner == 1
    assert "You are X, greedy is O." in shown
    assert shown.endswith("│ O  O  O  ·  ·  ·  · │\n│[X][X][X][X] ·  ·  · │\n└─────────────────────┘\nYou win.\n")
    board, shown = played([], Board.from_moves("112233"), side=2)
    assert (board.winner, "greedy plays 4.\n" in shown, shown.endswith("greedy wins.\n")) == (1, True, True)
    board, shown = played(["2"], Board.from_moves("1", 1, 2, 2), side=2)
    assert shown.endswith("The game is a draw.\n")


def test_undo_and_mistakes() -> None:
    board, shown = played(["u", "1", "u", "x", "9", "", "m", "2", "m", "q"])
    assert board == Board.from_moves("24")
    assert "You have no move to undo." in shown
    assert "columns are 1 to 7, got 'x'" in shown
    assert "columns are 1 to 7, got '9'" in shown
    assert "no moves yet" in shown
    assert "\n24\n" in shown
    assert shown.endswith("You quit after 24.\n")


def test_a_full_column_is_reported() -> None:
    _, shown = played(["4"], Board.from_moves("444444"))
    assert "column 3 is full (4 in move strings); play one of [0, 1, 2, 4, 5, 6]" in shown


def test_the_end_of_input_ends_the_game() -> None:
    board, shown = played(["4"])
    assert board.stones == 2
    assert shown.endswith("You quit after 44.\n")


def test_ctrl_c_ends_the_game() -> None:
    def interrupted(prompt: str) -> str:
        raise KeyboardInterrupt

    console = Console(file=StringIO())
    assert play_in_terminal(player("greedy"), Board(), console=console, ask=interrupted) == Board()


def test_hints() -> None:
    def scores(board: Board) -> list[int | None]:
        return [None, 0, -1, 18, 3, -18, 2]

    _, shown = played(["h"], Board.from_moves("112233"), hints=scores)
    assert "1 full  2 =  3 L18  4 W1  5 W16  6 L1  7 W17" in shown
    _, always = played([], Board.from_moves("112233"), hints=scores, always=True)
    assert "W1: you win with your 1st stone from now" in always
    _, none = played(["h"])
    assert "The board is too large for hints." in none


@pytest.mark.parametrize("size", [(6, 7, 4), (5, 5, 4), (4, 5, 3)])
def test_hints_count_stones_from_now(size: tuple[int, int, int]) -> None:
    cells = size[0] * size[1]
    for stones in range(6):
        board = Board.from_moves([0, 1, 2, 3, 4, 0][:stones], *size)
        assert outcome_word(board, (cells + 1 - stones) // 2) == "W1"
        assert outcome_word(board, -((cells + 1 - (stones + 1)) // 2)) == "L1"
        assert outcome_word(board, (cells + 1 - (stones + 2)) // 2) == "W2"
    assert str(hint_text(Board(2, 2, 2), [0, None])).startswith("1 =  2 full\n")
