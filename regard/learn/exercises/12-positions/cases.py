import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["sinusoidal_positions"]
USES = "numpy"
RESULTS = ["table"]


def cases(rng: np.random.Generator) -> list[Case]:
    length, pairs = (int(n) for n in rng.integers([5, 3], [30, 20]))
    return [
        case("three positions of width 4", "三个位置，宽度为 4", 3, 4),
        case("an even width", "偶数宽度", length, 2 * pairs),
        case("an odd width", "奇数宽度", length, 2 * pairs + 1),
        case("as many positions as columns", "位置数等于列数", 2 * pairs, 2 * pairs),
        case("a single position", "只有一个位置", 1, 2 * pairs),
        case("a width of 2", "宽度为 2", length, 2),
        case("thousands of positions", "几千个位置", int(rng.integers(2000, 3000)), 8),
    ]
