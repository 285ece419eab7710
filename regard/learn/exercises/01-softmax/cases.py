import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["softmax"]
USES = "numpy"
RESULTS = ["weights"]


def cases(rng: np.random.Generator) -> list[Case]:
    rows, columns, batch = (int(n) for n in rng.integers([2, 3, 2], [5, 6, 4]))
    x = rng.normal(size=(rows, columns)) * 2
    far_apart = x + np.linspace(0, -2000, rows)[:, None]
    hidden = x.copy()
    hidden[:, int(rng.integers(columns))] = -np.inf
    return [
        case("two rows of three scores", "两行，每行三个分数", np.round(rng.normal(size=(2, 3)), 1)),
        case("one row, without a second axis", "只有一行，没有第二个轴", x[0]),
        case("as many rows as columns", "行数等于列数", rng.normal(size=(columns, columns))),
        case("more rows than columns", "行数多于列数", rng.normal(size=(columns + 2, columns))),
        case("three axes", "三个轴", rng.normal(size=(batch, rows, columns))),
        case("four axes", "四个轴", rng.normal(size=(2, batch, rows, columns))),
        case("a batch of one", "批大小为 1", rng.normal(size=(1, rows, columns))),
        case("a single score in each row", "每行只有一个分数", rng.normal(size=(rows, 1))),
        case("one score is −∞", "其中一个分数是 −∞", hidden),
        case("scores in the thousands", "分数上千", x * 1000),
        case("high scores close together", "分数很高但相差不大", x + 2000),
        case("rows far apart: one near 0, one near −2000", "各行相差很大：一行接近 0，一行接近 −2000", far_apart),
    ]
