import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["linear_loop", "linear_reshape"]
USES = "torch"
FORBIDDEN = ["torch.*.linear", "torch.*.Linear", "torch.*.LazyLinear", "torch.*.Bilinear", "torch.*.bilinear"]
RESULTS = ["linear_loop", "linear_reshape"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, S, D, D_out = (int(n) for n in rng.integers([2, 5, 8, 3], [5, 8, 12, 7]))

    def made(B: int = B, S: int = S, D: int = D, D_out: int = D_out) -> tuple[np.ndarray, ...]:
        return rng.normal(size=(B, S, D)), rng.normal(size=(D_out, D)), 3 * rng.normal(size=D_out)

    return [
        case("one sequence of two tokens", "一个序列，两个词元", *(np.round(a, 1) for a in made(1, 2, 2, 3))),
        case("narrower than before", "输出比输入窄", *made()),
        case("as wide as before", "输出和输入一样宽", *made(D_out=D)),
        case("as many sequences as tokens", "序列数等于词元数", *made(B=S)),
        case("a single token", "只有一个词元", *made(S=1)),
        case("a single output", "只有一个输出", *made(D_out=1)),
        case("a single channel", "只有一个通道", *made(D=1)),
    ]
