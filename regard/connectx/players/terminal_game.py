"""Play against a player in the terminal."""

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from regard.connectx.game.board import Board
from regard.connectx.game.board_text import COLUMN_SIGNS
from regard.connectx.players.player import Player, PlayerError

HELP = "type a column to play it, u to undo your last move, h for hints, m for the moves so far, q to quit"

Scores = Callable[[Board], list[int | None]]


def play_in_terminal(
    opponent: Player, board: Board, *, side: int = 1, hints: Scores | None = None, always: bool = False,
    console: Console | None = None, ask: Callable[[str], str] = input,
) -> Board:  # fmt: skip
    """Play until the game is over or the user quits, and return the last board.

    opponent    the other player
    board       board to begin with
    side        side of the user: 1 moves first, 2 second
    hints       returns the score of every column, such as `Solver.scores`
    always      show hints before every move, not only on request
    console     where to print; by default the terminal
    ask         reads a line from the user

    >>> from regard.connectx import player
    >>> console = Console(quiet=True)
    >>> play_in_terminal(player("greedy"), Board(), console=console, ask=lambda prompt: "q").stones
    0
    """
    console = console or Console(highlight=False)
    first_stones, last_shown = board.stones, None
    console.print(
        f"You are {'XO'[side - 1]}, {opponent.name} is {'OX'[side - 1]}. {HELP[0].upper()}{HELP[1:]}.", style="dim"
    )
    while not board.over:
        if board.turn != side:
            try:
                column = opponent.choose(board)
            except PlayerError as error:
                console.print(f"{opponent.name} failed. {error}")
                return board
            console.print(f"{opponent.name} plays {COLUMN_SIGNS[column]}.")
            board = board.play(column)
            continue
        if board is not last_shown:
            last_shown = board
            console.print(board)
            if always and hints is not None:
                console.print(hint_text(board, hints(board)))
        try:
            command = ask("your move: ").strip().lower()
        except (EOFError, KeyboardInterrupt):
            console.print()
            command = "q"
        if command in ("q", "quit", "exit"):
            console.print(f"You quit after {board.moves or 'no move'}.")
            return board
        if command in ("u", "undo"):
            if board.stones - 2 < first_stones:
                console.print("You have no move to undo.")
            else:
                board = board.undo(2)
        elif command in ("h", "hint", "hints"):
            console.print("The board is too large for hints." if hints is None else hint_text(board, hints(board)))
        elif command in ("m", "moves"):
            console.print(board.moves or "no moves yet")
        elif command in ("", "?", "help"):
            console.print(HELP, style="dim")
        elif command not in list(COLUMN_SIGNS[: board.columns]):
            console.print(f"columns are 1 to {COLUMN_SIGNS[board.columns - 1]}, got {command!r}; {HELP}")
        else:
            try:
                board = board.play(COLUMN_SIGNS.index(command))
            except ValueError as error:
                console.print(str(error))
    console.print(board)
    if board.winner is None:
        console.print("The game is a draw.")
    else:
        console.print("You win." if board.winner == side else f"{opponent.name} wins.", style="bold")
    return board


def hint_text(board: Board, scores: list[int | None]) -> Text:
    """Return the outcome of each column under perfect play, and a legend.

    >>> print(hint_text(Board.from_moves("112233"), [-2, 0, -1, 18, -1, 0, None]))
    1 L17  2 =  3 L18  4 W1  5 L18  6 =  7 full
    W1: you win with your 1st stone from now; L2: they win with their 2nd; =: draw
    """
    text = Text()
    styles = {"W": "bold green", "L": "red", "=": "", "f": "dim"}
    for column, score in enumerate(scores):
        word = outcome_word(board, score)
        text.append(f"{COLUMN_SIGNS[column]} ", style="dim")
        text.append(word, style=styles[word[0]])
        text.append("  " if column < board.columns - 1 else "\n")
    text.append("W1: you win with your 1st stone from now; L2: they win with their 2nd; =: draw", style="dim")
    return text


def outcome_word(board: Board, score: int | None) -> str:
    """Return a score of the solver as W, = or L, followed by the number of stones that the winner still has to play.

    >>> outcome_word(Board.from_moves("112233"), 18), outcome_word(Board(), 1)
    ('W1', 'W21')
    """
    if score is None:
        return "full"
    if score == 0:
        return "="
    second = board.turn - 1 if score > 0 else 2 - board.turn  # 1 if the second player wins
    stone = (board.rows * board.columns + 3 - second) // 2 - abs(score)
    return f"W{stone - board.stones // 2}" if score > 0 else f"L{stone - (board.stones + 1) // 2}"
