"""A game in the terminal: you against a player."""

from collections.abc import Callable
from contextlib import suppress

from rich.console import Console
from rich.text import Text

from regard.connectx.game.board import SIGNS, Board
from regard.connectx.players.registry import Forfeit, Player

HELP = "type a column to play it; u takes your last move back; h hints; m the moves so far; q ends the game"

Scores = Callable[[Board], list[int | None]]


def play_in_terminal(
    opponent: Player,
    board: Board,
    *,
    side: int = 1,
    hints: Scores | None = None,
    always: bool = False,
    console: Console | None = None,
    ask: Callable[[str], str] = input,
) -> Board:
    """Play until the game is over or you leave; the board as it stands then.

    `hints` gives every column's score (the solver); they are shown on asking, or `always`.
    """
    console = console or Console(highlight=False)
    begun, shown = board.stones, None
    console.print(
        f"You are {'XO'[side - 1]}, {opponent.name} is {'OX'[side - 1]}. {HELP[0].upper()}{HELP[1:]}.", style="dim"
    )
    while not board.over:
        if board.turn != side:
            try:
                column = opponent.choose(board)
            except Forfeit as error:
                console.print(f"{opponent.name} gives up. {error}")
                return board
            console.print(f"{opponent.name} plays {SIGNS[column]}.")
            board = board.play(column)
            continue
        if board is not shown:
            shown = board
            console.print(board)
            if always and hints is not None:
                console.print(hint_line(board, hints(board)))
        try:
            said = ask("your move: ").strip().lower()
        except (EOFError, KeyboardInterrupt):
            console.print()
            said = "q"
        if said in ("q", "quit", "exit"):
            console.print(f"Left after {board.moves or 'no move'}.")
            return board
        if said in ("u", "undo"):
            if board.stones - 2 < begun:
                console.print("There is no move of yours to take back.")
            else:
                board = board.undo(2)
        elif said in ("h", "hint", "hints"):
            console.print("There is no solver for this board." if hints is None else hint_line(board, hints(board)))
        elif said in ("m", "moves"):
            console.print(board.moves or "none yet")
        elif said in ("", "?", "help"):
            console.print(HELP, style="dim")
        else:
            try:
                board = board.play(_column(said, board))
            except ValueError as error:
                console.print(str(error))
    console.print(board)
    if board.winner is None:
        console.print("Drawn.")
    else:
        console.print("You win." if board.winner == side else f"{opponent.name} wins.", style="bold")
    return board


def hint_line(board: Board, scores: list[int | None]) -> Text:
    """What each column leads to if both play perfectly.

    >>> print(hint_line(Board.from_moves("112233"), [-2, 0, -1, 18, -1, 0, None]))
    1 L17  2 =  3 L18  4 W1  5 L18  6 =  7 full
    W1: you win with your 1st stone from now; L2: they win with their 2nd; =: draw
    """
    text = Text()
    styles = {"W": "bold green", "L": "red", "=": "", "f": "dim"}
    for column, score in enumerate(scores):
        word = truth(board, score)
        text.append(f"{SIGNS[column]} ", style="dim")
        text.append(word, style=styles[word[0]])
        text.append("  " if column < board.columns - 1 else "\n")
    text.append("W1: you win with your 1st stone from now; L2: they win with their 2nd; =: draw", style="dim")
    return text


def truth(board: Board, score: int | None) -> str:
    """A score in words: W, = or L, and with which stone from now (see `regard.connectx.Solver` for scores).

    >>> truth(Board.from_moves("112233"), 18), truth(Board(), 1)
    ('W1', 'W21')
    """
    if score is None:
        return "full"
    if score == 0:
        return "="
    second = board.turn - 1 if score > 0 else 2 - board.turn  # whether it is the second player who wins
    stone = (board.rows * board.columns + 3 - second) // 2 - abs(score)
    return f"W{stone - board.stones // 2}" if score > 0 else f"L{stone - (board.stones + 1) // 2}"


def _column(said: str, board: Board) -> int:
    with suppress(ValueError):
        if 0 <= (column := SIGNS.index(said)) < board.columns and len(said) == 1:
            return column
    raise ValueError(f"columns are 1 to {SIGNS[board.columns - 1]}, got {said!r}; {HELP}")
