"""ConnectX as anyone would write it in plain Python: the reference for the fast one."""

from functools import cache

Grid = tuple[tuple[int, ...], ...]  # columns from the left, each from below; 0 where nothing lies


def empty(rows: int, columns: int) -> Grid:
    return ((0,) * rows,) * columns


def drop(grid: Grid, column: int, player: int) -> Grid:
    stones = list(grid[column])
    stones[stones.index(0)] = player
    return (*grid[:column], tuple(stones), *grid[column + 1 :])


def legal(grid: Grid) -> list[int]:
    return [column for column, stones in enumerate(grid) if 0 in stones]


def has_line(grid: Grid, player: int, inarow: int) -> bool:
    columns, rows = len(grid), len(grid[0])
    for column in range(columns):
        for row in range(rows):
            for right, up in ((0, 1), (1, 0), (1, 1), (1, -1)):
                squares = [(column + k * right, row + k * up) for k in range(inarow)]
                if all(c < columns and 0 <= r < rows and grid[c][r] == player for c, r in squares):
                    return True
    return False


def kaggle(grid: Grid) -> list[int]:
    rows = len(grid[0])
    return [column[row] for row in range(rows - 1, -1, -1) for column in grid]


@cache
def score(grid: Grid, inarow: int, stones: int = 0) -> int:
    """Of the side to move: (cells + 1 − stones before the winning move) // 2, negative for a loss, 0 for a draw."""
    mover, cells = 1 + stones % 2, len(grid) * len(grid[0])
    if stones == cells:
        return 0
    return max(move_score(grid, inarow, stones, column, mover) for column in legal(grid))


def move_score(grid: Grid, inarow: int, stones: int, column: int, mover: int) -> int:
    after = drop(grid, column, mover)
    if has_line(after, mover, inarow):
        return (len(grid) * len(grid[0]) + 1 - stones) // 2
    return -score(after, inarow, stones + 1)


def scores(grid: Grid, inarow: int, stones: int) -> list[int | None]:
    mover = 1 + stones % 2
    return [
        move_score(grid, inarow, stones, column, mover) if 0 in grid[column] else None for column in range(len(grid))
    ]


def grid_of(marks: list[int], rows: int, columns: int) -> Grid:
    """The grid of Kaggle's list."""
    return tuple(tuple(marks[(rows - 1 - row) * columns + column] for row in range(rows)) for column in range(columns))
