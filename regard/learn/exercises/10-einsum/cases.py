import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["multi_head_einsum"]
USES = "torch"
RESULTS = ["output", "weights"]
MUST_CALL = ["einsum"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, S, D, d_k, d_v = (int(n) for n in rng.integers([2, 4, 12, 3, 5], [4, 7, 15, 5, 8]))
    H = int(rng.choice([2, 3]))

    def made(B: int = B, S: int = S, D: int = D, H: int = H, d_k: int = d_k, d_v: int = d_v) -> tuple[np.ndarray, ...]:
        x = rng.normal(size=(B, S, D))
        inwards = (2 * rng.normal(size=(D, H, d)) / np.sqrt(D) for d in (d_k, d_k, d_v))
        return (x, *inwards, rng.normal(size=(H, d_v, D + 1)))

    high = made()
    high[0][..., 0] = 14  # exp of these scores overflows in float32
    high[1][0], high[2][0], high[3][0] = np.eye(d_k)[0], np.eye(d_k)[0], 0
    return [
        case("two tokens, one head of width 2", "两个词元，一个宽度为 2 的头", *made(1, 2, 2, 1, 2, 2)),
        case("all sizes differ", "所有尺寸各不相同", *made()),
        case("all sizes the same", "所有尺寸都相同", *made(B=4, S=4, D=4, H=4, d_k=4, d_v=4)),
        case("a batch of one", "批大小为 1", *made(B=1)),
        case("a single token", "只有一个词元", *made(S=1)),
        case("scores above 100", "分数超过 100", *high),
        case("one head", "只有一个头", *made(H=1)),
    ]
