"""Positions by lot: what random and careful play lead to, at any number of stones.

Random games are over long before the board is full, and nobody who plays at all gets into most of what they pass
through. So each game has a share of random moves of its own, from none to all; the other moves are *careful*: they
block a line that is about to be completed, and do not prepare one for the opponent. Nobody completes a line, so that
the game goes on to the number of stones that was asked for.
"""

import numpy as np

from regard.compiled import compiled
from regard.connectx.game.bitboard import Shape, careful, completing, possible

Array = np.ndarray

WILD = (0.0, 0.1, 0.3, 1.0)  # shares of random moves


def drawn_positions(stones: Array, shape: Shape, seed: int) -> tuple[Array, Array]:
    """A running game with each of these numbers of stones, or fewer where there is none: (positions, masks).

    >>> from regard.connectx import Board
    >>> position, mask = drawn_positions(np.array([10, 20]), Board().shape, seed=0)
    >>> [int(bits).bit_count() for bits in mask], [int(bits).bit_count() for bits in position]
    ([10, 20], [5, 10])
    """
    most = shape.rows * shape.columns - 1
    if len(stones) and not 0 <= stones.min() <= stones.max() <= most:
        raise ValueError(f"a running game has 0 to {most} stones, got {stones.min()} to {stones.max()}")
    random = np.random.default_rng(seed).integers(1, 2**63, 1, np.int64).view(np.uint64)
    position, mask = np.zeros(len(stones), np.int64), np.zeros(len(stones), np.int64)
    _draw(stones.astype(np.int64), np.array(WILD), position, mask, random, shape)
    return position, mask


@compiled
def below(random: Array, limit: int) -> int:
    """A random number from 0 to limit − 1; the state of the generator (xorshift64*) moves on."""
    state = random[0]
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    random[0] = state
    high = (state * np.uint64(2685821657736338717)) >> np.uint64(32)
    drawn: int = np.int64((high * np.uint64(limit)) >> np.uint64(32))  # type: ignore[assignment]  # of NumPy's kind
    return drawn


@compiled
def one_of(moves: int, random: Array) -> int:
    """One of these squares, by lot."""
    left, count = moves, 0
    while left:
        left &= left - 1
        count += 1
    at = below(random, count)
    while at:
        moves &= moves - 1
        at -= 1
    return moves & -moves


@compiled
def _draw(stones: Array, wild: Array, position: Array, mask: Array, random: Array, shape: Shape) -> None:
    for at in range(len(stones)):
        done, tries, wanted = False, 0, stones[at]
        while not done:
            tries += 1
            if tries % 1000 == 0 and wanted > 0:  # small boards have no running games with so many stones
                wanted -= 1
            share = wild[below(random, len(wild))]
            here: int = np.int64(0)  # type: ignore[assignment]  # of NumPy's kind, as the arrays' are
            all_: int = np.int64(0)  # type: ignore[assignment]
            done = True
            for _ in range(wanted):
                quiet = possible(all_, shape) & ~completing(here, shape)
                moves = careful(here, all_, shape)
                if moves == 0 or below(random, 1000) < 1000 * share:
                    moves = quiet
                if moves == 0:  # whatever is played wins: another game
                    done = False
                    break
                stone = one_of(moves, random)
                here, all_ = here ^ all_, all_ | stone
            if done and all_ == shape.full:
                done = False
        position[at], mask[at] = here, all_
