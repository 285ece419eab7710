import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["scaled_scores"]
USES = "numpy"
RESULTS = ["scores"]


def cases(rng: np.random.Generator) -> list[Case]:
    H, L, S, d_k = (int(n) for n in rng.integers([2, 3, 6, 9], [4, 6, 9, 13]))

    def made(H: int = H, L: int = L, S: int = S, d_k: int = d_k) -> tuple[np.ndarray, ...]:
        return rng.normal(size=(H, L, d_k)), rng.normal(size=(H, S, d_k))

    small = (np.round(rng.normal(size=shape), 1) for shape in ((1, 2, 3), (1, 2, 3)))
    return [
        case("one head of width 3", "一个宽度为 3 的头", *small),
        case("several heads", "多个头", *made()),
        case("as many queries as keys", "查询和键一样多", *made(L=S)),
        case("heads of width 1", "头的宽度为 1", *made(d_k=1)),
        case("a single query and a single key", "一个查询，一个键", *made(L=1, S=1)),
        case("a scale that is given", "给定缩放系数", *made(), float(rng.uniform(0.2, 3))),
        case("a negative scale", "负的缩放系数", *made(), -1.5),
        case("a scale of 0", "缩放系数为 0", *made(), 0.0),
    ]
