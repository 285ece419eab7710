import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["multi_head_attention"]
USES = "numpy"
RESULTS = ["output", "weights"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, L, S, d_k = (int(n) for n in rng.integers([2, 3, 6, 3], [4, 6, 9, 6]))
    H = int(rng.choice([2, 3, 4]))

    def made(B: int = B, L: int = L, S: int = S, D: int = H * d_k, size: float = 1.0) -> list[np.ndarray]:
        q, k, v = rng.normal(size=(B, L, D)), rng.normal(size=(B, S, D)), rng.normal(size=(B, S, D))
        return [size * q, k, v]

    high = made()
    high[0][:], high[1][:] = high[0] + 30, high[1] + 30  # every score is high, and they differ little
    small = [np.round(rng.normal(size=shape), 1) for shape in ((1, 2, 4), (1, 3, 4), (1, 3, 4))]
    return [
        case("two heads of width 2, two queries, three keys", "两个宽度为 2 的头，两个查询，三个键", *small, 2),
        case("a batch, fewer queries than keys", "有批，查询少于键", *made(), H),
        case("as many queries as keys", "查询和键一样多", *made(L=S), H),
        case("as many heads as tokens", "头数等于词元数", *made(L=H, S=H), H),
        case("a batch of one", "批大小为 1", *made(B=1), H),
        case("one head", "只有一个头", *made(), 1),
        case("heads of width 1", "头的宽度为 1", *made(), H * d_k),
        case("a single query", "只有一个查询", *made(L=1), H),
        case("high scores close together", "分数很高但相差不大", *high, H),
        case("scores in the thousands", "分数上千", *made(size=3000.0), H),
    ]
