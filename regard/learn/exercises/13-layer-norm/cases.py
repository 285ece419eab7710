import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["layer_norm"]
USES = "numpy"
RESULTS = ["y"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, S, D = (int(n) for n in rng.integers([2, 3, 5], [4, 6, 9]))

    def made(*shape: int, size: float = 1.0) -> tuple[np.ndarray, ...]:
        x = size * (rng.normal(size=shape) + rng.normal(size=(*shape[:-1], 1)))
        return x, rng.normal(size=shape[-1]) + 2, rng.normal(size=shape[-1])

    constant, gamma, beta = made(B, S, D)
    constant[0, 0] = 3.0
    return [
        case("two tokens of width 3", "两个宽度为 3 的词元", *(np.round(a, 1) for a in made(2, 3))),
        case("a batch of sequences", "一批序列", *made(B, S, D)),
        case("as many tokens as channels", "词元数等于宽度", *made(D, D)),
        case("four axes", "四个轴", *made(2, B, S, D)),
        case("a batch of one", "批大小为 1", *made(1, S, D)),
        case("one token without a sequence", "单个词元，没有序列轴", *made(D)),
        case("numbers in the thousands", "数值上千", *made(S, D, size=5000.0)),
        case("tiny numbers, where ε matters", "数值极小，ε 起作用", *made(S, D, size=0.003)),
        case("another ε", "另一个 ε", *made(S, D), 0.5),
        case("a token with all numbers the same", "有一个词元的数全都相同", constant, gamma, beta, 0.0001),
    ]
