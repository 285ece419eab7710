import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["compute_qkv", "self_attention"]
USES = "numpy"
RESULTS = [
    "Q of compute_qkv",
    "K of compute_qkv",
    "V of compute_qkv",
    "output of self_attention",
    "weights of self_attention",
]


def cases(rng: np.random.Generator) -> list[Case]:
    S, D, d_k, d_v = (int(n) for n in rng.integers([4, 12, 3, 7], [7, 16, 6, 10]))

    def made(S: int = S, D: int = D, d_k: int = d_k, d_v: int = d_v, size: float = 1.0) -> tuple[np.ndarray, ...]:
        x = rng.normal(size=(S, D))
        return x, *(size * rng.normal(size=(D, d)) / np.sqrt(D) for d in (d_k, d_k, d_v))

    high = made()
    high[0][:, 0] = 60  # every score is high, and they differ little
    high[1][0], high[2][0] = 2, 2
    return [
        case("two tokens of width 2", "两个宽度为 2 的词元", *(np.round(a, 1) for a in made(2, 2, 2, 2, 2.0))),
        case("d_k, d_v and D all differ", "d_k、d_v、D 各不相同", *made()),
        case("all widths the same", "所有宽度相同", *made(d_k=D, d_v=D)),
        case("as many tokens as channels", "词元数等于宽度", *made(S=D, d_k=D, d_v=D)),
        case("a single token", "只有一个词元", *made(S=1)),
        case("a head of width 1", "头的宽度为 1", *made(d_k=1, d_v=1)),
        case("high scores close together", "分数很高但相差不大", *high),
        case("scores in the thousands", "分数上千", *made(size=60.0)),
    ]
