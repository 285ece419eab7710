import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["spatial_attention"]
USES = "torch"
RESULTS = ["output"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, rows, columns, d_k = (int(n) for n in rng.integers([2, 2, 5, 3], [4, 5, 8, 6]))
    heads = int(rng.choice([2, 4]))

    def made(B: int = B, H: int = rows, W: int = columns, C: int = heads * d_k) -> tuple[np.ndarray, ...]:
        x = rng.normal(size=(B, C, H, W))
        return x, 1.7 * rng.normal(size=(3 * C, C)) / np.sqrt(C), rng.normal(size=(C, C)) / np.sqrt(C)

    high = made()
    high[0][:, 0] = 15  # exp of these scores overflows in float32
    high[1][:, 0] = np.append(np.tile(np.eye(d_k)[0], 2 * heads), np.zeros(heads * d_k))
    return [
        case("a board of 2 × 3, two channels, one head", "2 × 3 的棋盘，两个通道，一个头", *made(1, 2, 3, 2), 1),
        case("a wide board, several heads", "宽棋盘，多个头", *made(), heads),
        case("a square board", "正方形棋盘", *made(H=3, W=3), heads),
        case("as many squares as channels of a head", "格子数等于一个头的通道数", *made(H=2, W=3, C=12), 2),
        case("a board of 6 × 7, a batch of one", "6 × 7 的棋盘，批大小为 1", *made(1, 6, 7, 12), 4),
        case("scores above 100", "分数超过 100", *high, heads),
        case("three heads of width 3", "三个宽度为 3 的头", *made(C=9), 3),
        case("a single square", "只有一个格子", *made(H=1, W=1), heads),
        case("10 channels with 4 heads", "10 个通道，4 个头", *made(1, C=10), 4),
        case("128 channels with 24 heads", "128 个通道，24 个头", *made(1, 1, 2, 128), 24),
    ]
