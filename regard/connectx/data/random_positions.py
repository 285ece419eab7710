"""Random positions with a given number of stones, from games that mix random and safe moves.

Purely random games end long before the board is full, and most of their positions never occur in real play. So each
game has its own share of random moves, from none to all. The other moves are safe: they block a threat, and do not
allow the opponent to win with the next stone. No player completes a line, so the game continues to the required number
of stones.
"""

import numpy as np

from regard.connectx.game.bitboard import Shape, completing_squares, playable_squares, popcount, safe_moves
from regard.numba_functions import compiled

Array = np.ndarray

RANDOM_SHARES = (0.0, 0.1, 0.3, 1.0)  # each game has one of these shares of random moves


def random_positions(stones: Array, shape: Shape, seed: int) -> tuple[Array, Array]:
    """Return positions of unfinished games with these numbers of stones: (positions, masks).

    If no unfinished game with that many stones is found (on small boards), the position has fewer stones.

    >>> from regard.connectx import Board
    >>> position, mask = random_positions(np.array([10, 20]), Board().shape, seed=0)
    >>> [int(bits).bit_count() for bits in mask], [int(bits).bit_count() for bits in position]
    ([10, 20], [5, 10])
    """
    most = shape.rows * shape.columns - 1
    if len(stones) and not 0 <= stones.min() <= stones.max() <= most:
        raise ValueError(f"an unfinished game has 0 to {most} stones, got {stones.min()} to {stones.max()}")
    random = np.random.default_rng(seed).integers(1, 2**63, 1, np.int64).view(np.uint64)
    position, mask = np.zeros(len(stones), np.int64), np.zeros(len(stones), np.int64)
    _play_games(stones.astype(np.int64), np.array(RANDOM_SHARES), position, mask, random, shape)
    return position, mask


@compiled
def below(random: Array, limit: int) -> int:
    """Return a random number from 0 to limit − 1 and advance the state of the generator (xorshift64*)."""
    state = random[0]
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    random[0] = state
    high = (state * np.uint64(2685821657736338717)) >> np.uint64(32)
    number: int = np.int64((high * np.uint64(limit)) >> np.uint64(32))  # type: ignore[assignment]
    return number


@compiled
def random_square(moves: int, random: Array) -> int:
    """Return one of the squares in a bit set, chosen at random."""
    for _ in range(below(random, popcount(moves))):
        moves &= moves - 1
    return moves & -moves


@compiled
def _play_games(stones: Array, random_shares: Array, position: Array, mask: Array, random: Array, shape: Shape) -> None:
    for at in range(len(stones)):
        done, tries, target = False, 0, stones[at]
        while not done:
            tries += 1
            if tries % 1000 == 0 and target > 0:  # small boards may have no unfinished game with so many stones
                target -= 1
            share = random_shares[below(random, len(random_shares))]
            here: int = np.int64(0)  # type: ignore[assignment]  # int64, like the elements of the arrays
            all_: int = np.int64(0)  # type: ignore[assignment]
            done = True
            for _ in range(target):
                quiet = playable_squares(all_, shape) & ~completing_squares(here, shape)
                moves = safe_moves(here, all_, shape)
                if moves == 0 or below(random, 1000) < 1000 * share:
                    moves = quiet
                if moves == 0:  # every move wins: start another game
                    done = False
                    break
                stone = random_square(moves, random)
                here, all_ = here ^ all_, all_ | stone
            if done and all_ == shape.full:
                done = False
        position[at], mask[at] = here, all_
