import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["attention"]
USES = "numpy"
RESULTS = ["output", "weights"]


def cases(rng: np.random.Generator) -> list[Case]:
    S, d_k, d_v = (int(n) for n in rng.integers([6, 3, 9], [9, 6, 13]))

    def made(S: int, d_k: int, d_v: int, size: float = 1.0) -> tuple[np.ndarray, ...]:
        return size * rng.normal(size=d_k), rng.normal(size=(S, d_k)), rng.normal(size=(S, d_v))

    query, keys, values = made(S, d_k, d_v, 3000.0)
    keys[-1] = query / np.linalg.norm(query)  # one score is positive and overflows exp
    high_query, high_keys, high_values = made(S, d_k, d_v)
    high_query[0], high_keys[:, 0] = 60, 60  # every score is high, and they differ little
    return [
        case("three keys of width 2", "三个宽度为 2 的键", *(np.round(a, 1) for a in made(3, 2, 2))),
        case("values wider than keys", "值比键更宽", *made(S, d_k, d_v)),
        case("keys wider than values", "键比值更宽", *made(S, d_v, d_k)),
        case("a single key", "只有一个键", *made(1, d_k, d_v)),
        case("values that are single numbers", "值只是单个数字", *made(S, d_k, 1)),
        case("a query of zeros", "查询全为零", *made(S, d_k, d_v, 0.0)),
        case("high scores close together", "分数很高但相差不大", high_query, high_keys, high_values),
        case("scores in the thousands", "分数上千", query, keys, values),
    ]
