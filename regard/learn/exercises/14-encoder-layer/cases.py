import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["encoder_layer"]
USES = "torch"
RESULTS = ["y"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, S, D, d_ff = (int(n) for n in rng.integers([2, 3, 4, 8], [4, 6, 7, 14]))

    def made(B: int = B, S: int = S, D: int = D, d_ff: int = d_ff) -> tuple[np.ndarray, ...]:
        return (
            rng.normal(size=(B, S, D)),
            rng.normal(size=(4, D, D)) / np.sqrt(D),  # weights of the attention in drive.py
            rng.normal(size=(4, D)) + np.array([[1.5], [0.0], [1.5], [0.0]]),  # γ and β of the two norms
            rng.normal(size=(D, d_ff)),
            rng.normal(size=d_ff),
            rng.normal(size=(d_ff, D)),
            rng.normal(size=D),
        )

    return [
        case("two tokens of width 3", "两个宽度为 3 的词元", *made(1, 2, 3, 4)),
        case("a batch of sequences", "一批序列", *made()),
        case("a hidden layer as wide as the model", "隐藏层与模型一样宽", *made(d_ff=D)),
        case("a batch of one", "批大小为 1", *made(B=1)),
        case("a single token", "只有一个词元", *made(S=1)),
    ]
