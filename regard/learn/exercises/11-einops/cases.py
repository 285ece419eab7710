import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["split_heads", "merge_heads", "packed_attention"]
USES = "torch"
RESULTS = ["split_heads", "merge_heads", "packed_attention"]
MUST_CALL = ["rearrange"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, S, d_k = (int(n) for n in rng.integers([2, 4, 3], [4, 7, 6]))
    H = int(rng.choice([2, 4]))

    def made(B: int = B, S: int = S, H: int = H, d_k: int = d_k) -> tuple[np.ndarray, np.ndarray, int]:
        return rng.normal(size=(B, S, H * d_k)), 1.5 * rng.normal(size=(B, S, 3 * H * d_k)), H

    high = made()
    high[1].reshape(B, S, 3, H, d_k)[:, :, :2, :, 0] = 16  # exp of these scores overflows in float32
    return [
        case("two tokens, two heads of width 2", "两个词元，两个宽度为 2 的头", *made(1, 2, 2, 2)),
        case("a batch", "有批", *made()),
        case("as many heads as tokens", "头数等于词元数", *made(S=H)),
        case("three heads of width 3", "三个宽度为 3 的头", *made(H=3, d_k=3)),
        case("scores above 100", "分数超过 100", *high),
        case("one head", "只有一个头", *made(H=1)),
        case("heads of width 1", "头的宽度为 1", *made(d_k=1)),
        case("a single token", "只有一个词元", *made(S=1)),
    ]
