import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["step"]
USES = "torch"
RESULTS = ["outputs of all chunks", "output of the first continuation", "output of the second continuation"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, D, d = (int(n) for n in rng.integers([2, 6, 3], [4, 9, 6]))

    def made(chunks: list[int], B: int = B) -> tuple[object, ...]:
        x, other = rng.normal(size=(B, sum(chunks), D)), rng.normal(size=(B, 1, D))
        return x, chunks, other, *(1.5 * rng.normal(size=(D, d)) / np.sqrt(D) for _ in range(3))

    high = made([3, 2])
    high[0][..., 0] = 15  # exp of these scores overflows in float32
    high[3][0], high[4][0], high[5][0] = np.eye(d)[0], np.eye(d)[0], 0
    longer = [int(n) for n in rng.integers(2, 5, size=3)]
    return [
        case("one token after another", "一个词元接一个词元", *made([1, 1, 1], B=1)),
        case("all at once", "一次全部给出", *made([5])),
        case("a prefix, then one by one", "先给前缀，再逐个给", *made([4, 1, 1])),
        case("several longer chunks", "几个较长的块", *made(longer)),
        case("scores above 100", "分数超过 100", *high),
        case("a single token", "只有一个词元", *made([1])),
    ]
