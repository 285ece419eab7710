import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["attention"]
USES = "numpy"
RESULTS = ["output", "weights"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, L, S, d_k, d_v = (int(n) for n in rng.integers([2, 3, 6, 9, 2], [4, 6, 9, 13, 6]))

    def made(*batch: int, L: int = L, S: int = S, size: float = 1.0) -> tuple[np.ndarray, ...]:
        q, k, v = (
            rng.normal(size=(*batch, L, d_k)),
            rng.normal(size=(*batch, S, d_k)),
            rng.normal(size=(*batch, S, d_v)),
        )
        return size * q, k, v

    high = made(B)
    high[0][..., 0], high[1][..., 0] = 60, 60  # every score is high, and they differ little
    small = (np.round(rng.normal(size=shape), 1) for shape in ((2, 2), (3, 2), (3, 2)))
    return [
        case("two queries, three keys", "两个查询，三个键", *small),
        case("fewer queries than keys, without a batch", "查询少于键，没有批", *made()),
        case("as many queries as keys", "查询和键一样多", *made(L=S)),
        case("a batch", "有批", *made(B)),
        case("a batch as large as everything else", "批的大小和其他维度一样", *made(S, L=S)),
        case("a batch of one", "批大小为 1", *made(1)),
        case("a single query", "只有一个查询", *made(B, L=1)),
        case("a single key", "只有一个键", *made(B, S=1)),
        case("more queries than keys", "查询多于键", *made(B, L=S + 3)),
        case("high scores close together", "分数很高但相差不大", *high),
        case("scores in the thousands", "分数上千", *made(B, size=3000.0)),
    ]
