import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["masked_attention"]
USES = "numpy"
RESULTS = ["output", "weights"]


def cases(rng: np.random.Generator) -> list[Case]:
    B, L, S, d_k, d_v = (int(n) for n in rng.integers([2, 3, 6, 4, 9], [4, 6, 9, 7, 12]))

    def made(*batch: int, L: int = L, size: float = 1.0) -> tuple[np.ndarray, ...]:
        q, k, v = (
            rng.normal(size=(*batch, L, d_k)),
            rng.normal(size=(*batch, S, d_k)),
            rng.normal(size=(*batch, S, d_v)),
        )
        return size * q, k, v

    def lots(*shape: int) -> np.ndarray:
        """Return a random mask that hides at least one key in every row, but not all keys."""
        mask = rng.random(shape) < 0.6
        mask[..., 0], mask[..., -1] = True, False
        return mask

    padding = np.arange(S) < rng.integers(1, S, size=B)[:, None, None]
    large_q, large_k, large_v = made()
    large_q[:, 0] = 1 + np.abs(large_q[:, 0])
    large_k[-1] = 5000 * np.eye(d_k)[0]  # hidden from all queries, with far higher scores than the visible keys
    low = made()
    low[0][..., 0], low[1][..., 0] = 60, -60  # all scores are far below 0
    last_hidden = np.arange(S)[None, :] < S - 1
    empty = lots(B, L, S)
    empty[0, int(rng.integers(L))] = False
    small = (np.round(rng.normal(size=shape), 1) for shape in ((2, 2), (3, 2), (3, 2)))
    return [
        case(
            "the last key is hidden from both queries",
            "最后一个键对两个查询都不可见",
            *small,
            np.array([[True, True, False]] * 2),
        ),
        case("a mask of its own for each query", "每个查询有自己的掩码", *made(), lots(L, S)),
        case("as many queries as keys, lower triangle", "查询和键一样多，下三角", *made(L=S), np.tri(S, dtype=bool)),
        case("everything visible", "全部可见", *made(), np.ones((L, S), dtype=bool)),
        case("padding of a batch, mask (B, 1, S)", "一批序列的填充，掩码 (B, 1, S)", *made(B), padding),
        case("a batch of one, mask (1, S)", "批大小为 1，掩码 (1, S)", *made(1), lots(1, S)),
        case("scores in the thousands", "分数上千", *made(size=3000.0), lots(L, S)),
        case("a batch with one mask (L, S)", "一批序列共用掩码 (L, S)", *made(B), lots(L, S)),
        case("all scores far below 0", "所有分数都远低于 0", *low, lots(L, S)),
        case("a hidden key with a far higher score", "被遮住的键分数高得多", large_q, large_k, large_v, last_hidden),
        case("an empty row", "有一个空行", *made(B), empty),
        case("nothing visible at all", "完全不可见", *made(), np.zeros((L, S), dtype=bool)),
    ]
