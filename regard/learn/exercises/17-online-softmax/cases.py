import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["online_attention"]
USES = "numpy"
RESULTS = ["output", "lse"]


def cases(rng: np.random.Generator) -> list[Case]:
    S, d_k, d_v = (int(n) for n in rng.integers([10, 4, 8], [15, 8, 11]))

    def made(S: int, tile: int, size: float = 2.0, rising: int = 0) -> tuple[object, ...]:
        query, keys = size * rng.normal(size=d_k), rng.normal(size=(S, d_k))
        if rising:
            keys = keys[np.argsort(rising * (keys @ query))]
        return query, keys, rng.normal(size=(S, d_v)), tile

    low = made(12, 3)
    low[1][:] += -2000 * low[0] / np.linalg.norm(low[0]) ** 2 * np.sqrt(d_k)  # every score is 2000 lower
    return [
        case("three keys, one at a time", "三个键，一次一个", *(np.round(a, 1) for a in made(3, 1)[:3]), 1),
        case("scores rise from tile to tile", "分数逐块上升", *made(12, 3, rising=1)),
        case("scores fall from tile to tile", "分数逐块下降", *made(12, 3, rising=-1)),
        case("the last tile is shorter", "最后一块较短", *made(3 * S + 1, 3)),
        case("the tile is larger than all keys", "一块比所有的键还多", *made(S, S + 5)),
        case("a single key", "只有一个键", *made(1, 4)),
        case("all scores far below 0", "所有分数都远低于 0", *low),
        case("scores in the thousands, rising", "分数上千，逐块上升", *made(12, 2, size=3000.0, rising=1)),
        case("scores in the thousands, falling", "分数上千，逐块下降", *made(12, 2, size=3000.0, rising=-1)),
    ]
