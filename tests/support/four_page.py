"""The page of Connect Four as tests use it: what is drawn there, and how to play."""

from regard.connectx import Board
from support.lab_page import WORK_PATIENCE, Opened

GAME = "2252576253462244111563365343671351441"  # 37 moves, not over
LATE = GAME[:26]


def stones(page: Opened) -> list[tuple[int, int, int]]:
    """(column, row from below, player) of every stone that is drawn."""
    read_ = (
        "[...document.querySelectorAll('.board .stones .stone')].map((one) => {"
        " const c = one.querySelector('circle');"
        " const place = ['cx', 'cy'].map((name) => Number(c.getAttribute(name)));"
        " return [...place, one.classList.contains('stone-1') ? 1 : 2]"
        "})"
    )
    found = page.tab.evaluate(read_)
    box = page.tab.evaluate("document.querySelectorAll('.board .rim').length")
    rows = box // page.tab.locator(".board-column").count()
    return sorted((int((x - 22) // 100), rows - 1 - int((y - 120) // 100), int(player)) for x, y, player in found)


def expected_stones(moves: str, *size: int) -> list[tuple[int, int, int]]:
    board, found = Board(*size), []
    for sign in moves:
        column = int(sign) - 1
        height = sum(1 for c, _, _ in found if c == column)
        found.append((column, height, board.turn))
        board = board.play(column)
    return sorted(found)


def moves_of(page: Opened) -> str:
    return "".join(page.tab.locator(".move-list .move-column").all_inner_texts())


def press_column(page: Opened, *columns: int) -> None:
    for column in columns:
        page.tab.locator(f".board-column[data-column='{column}']").click(force=True)  # also where it takes nothing


def done_thinking(page: Opened) -> None:
    page.tab.wait_for_function("() => !document.querySelector('.thinking:not([hidden])')", timeout=WORK_PATIENCE)
