import numpy as np

from regard.learn.grader.case import Case, case

NAMES = ["MultiHeadAttention"]
USES = "torch"
RESULTS = [
    "output of scaled_dot_product_attention",
    "weights of scaled_dot_product_attention",
    "output of forward",
    "weights of forward",
]


def cases(rng: np.random.Generator) -> list[Case]:
    B, L, S, d_k = (int(n) for n in rng.integers([2, 2, 5, 3], [4, 5, 8, 6]))
    H = int(rng.choice([2, 3, 4]))

    def made(B: int = B, S: int = S, H: int = H, d_k: int = d_k, mask: str = "") -> tuple[object, ...]:
        D = H * d_k
        parameters = {name: 2 * rng.normal(size=(D, D)) / np.sqrt(D) for name in ("w_q", "w_k", "w_v", "w_o")}
        parameters |= {f"{name}.bias": 0.5 * rng.normal(size=D) for name in ("w_q", "w_k", "w_v", "w_o")}
        heads = tuple(rng.normal(size=(B, H, n, d_k)) for n in (L, S, S))
        for_heads = rng.random((B, 1, L, S)) < 0.6 if mask else None
        if mask == "high":  # exp of these scores overflows in float32, and the hidden key has by far the highest
            heads[0][..., 0], heads[1][..., 0], heads[1][..., -1, 0] = 16, 16, 32
            for_heads[..., 0], for_heads[..., -1] = True, False
        for_x = None
        if mask == "causal":
            for_x = np.tri(S, dtype=bool)
        elif mask:
            for_x = (np.arange(S) < rng.integers(1, S, size=B)[:, None])[:, None, None, :]
        if mask == "empty":
            for_heads[0, 0, 0] = False
            for_x = np.broadcast_to(for_x, (B, 1, S, S)).copy()
            for_x[0, 0, -1] = False
        return parameters, H, heads, for_heads, rng.normal(size=(B, S, D)), for_x

    return [
        case("two heads of width 2, two tokens", "两个宽度为 2 的头，两个词元", *made(1, 2, 2, 2)),
        case("a batch without a mask", "有批，没有掩码", *made()),
        case("as many heads as tokens", "头数等于词元数", *made(S=H)),
        case("a causal mask (S, S)", "因果掩码 (S, S)", *made(mask="causal")),
        case("padding (B, 1, 1, S)", "填充掩码 (B, 1, 1, S)", *made(mask="padding")),
        case("a batch of one, one head", "批大小为 1，一个头", *made(B=1, H=1)),
        case("scores above 100", "分数超过 100", *made(mask="high")),
        case("an empty row", "有一个空行", *made(mask="empty")),
    ]
