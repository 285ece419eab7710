import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["step"]
USES = "torch"


def cases(rng: np.random.Generator) -> list[Case]:
    B, D, d = (int(n) for n in rng.integers([2, 6, 3], [4, 9, 6]))

    def made(chunks: list[int], B: int = B) -> tuple[object, ...]:
        x, other = rng.normal(size=(B, sum(chunks), D)), rng.normal(size=(B, 1, D))
        return x, chunks, other, *(1.5 * rng.normal(size=(D, d)) / np.sqrt(D) for _ in range(3))

    longer = [int(n) for n in rng.integers(2, 5, size=3)]
    return [
        case("one token after another", "一个词元接一个词元", *made([1, 1, 1], B=1)),
        case("all at once", "一次全部给出", *made([5])),
        case("a prefix, then one by one", "先给前缀，再逐个给", *made([4, 1, 1])),
        case("several longer chunks", "几个较长的块", *made(longer)),
        case("a single token", "只有一个词元", *made([1])),
    ]
