import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["causal_attention"]
USES = "torch"
RESULTS = ["output", "weights"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, H, S, d_k, d_v = (int(n) for n in rng.integers([2, 2, 5, 4, 8], [4, 4, 8, 8, 11]))

    def made(L: int, S: int = S, B: int = B, H: int = H) -> tuple[np.ndarray, ...]:
        return tuple(rng.normal(size=(B, H, n, d)) for n, d in ((L, d_k), (S, d_k), (S, d_v)))

    high = made(S)
    # exp of these scores overflows in float32, and later keys have by far the highest
    high[0][..., 0], high[1][..., 0] = 16, np.linspace(12, 32, S)
    return [
        case("three tokens, one head", "三个词元，一个头", *made(3, 3, 1, 1)),
        case("as many queries as keys", "查询和键一样多", *made(S)),
        case("the last two queries", "最后两个查询", *made(2)),
        case("one query, all keys cached", "一个查询，所有键都在缓存里", *made(1)),
        case("scores above 100, rising with the position", "分数超过 100，越往后越高", *high),
        case("a single key", "只有一个键", *made(1, 1)),
        case("more queries than keys: empty rows", "查询多于键：有空行", *made(S + 2)),
    ]
