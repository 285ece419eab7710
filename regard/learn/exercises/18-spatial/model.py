"""The exercise in NumPy, with the mistakes that can be made in each part."""

from regard.learn.mistakes import parts
from regard.learn.mistakes.attention import Inputs, attend
from regard.learn.mistakes.parts import swap
from regard.learn.mistakes.projections import PROJECTIONS, project

PARTS = {
    "check": ("unchecked", "silently-adjusted", "silently-adjusted:one", "unchecked:floor"),
    "board": ("heads-before-three", "channels-torn", "over-channels", "board-transposed", "rows-only", "columns-only",
              "reshape-without-transpose", "merge-without-transpose", "single-head", "heads-before-three:last",
              "interleaved", "merge-without-transpose:tokens"),
    "output": ("no-residual", "no-output-projection", "output-projection-transposed", "residual-twice",
               "residual-before-projection"),
    "projection": ["transposed-weights", *(name for name in PROJECTIONS if "projected" not in name)],
    "scale": parts.without(parts.SCALES, "scaled-by-axis", "scaled-by-queries", "scaled-by-values",
        "divided-by-values"),
    "scores": parts.without(parts.SCORES, "scores-transposed"),
    "softmax": parts.SOFTMAXES,
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "batch": parts.BATCHES[:-1],
}  # fmt: skip


def model(made, x, W_qkv, W_out, heads):
    B, C, H, W = x.shape
    check, board = made.get("check", ""), made.get("board", "")
    if C % heads:
        if check == "unchecked":
            raise RuntimeError("shape is invalid")
        if not check.startswith("silently"):
            raise ValueError(f"heads must divide the channels, got {heads} heads for {C} channels")
        while C % heads:
            heads = 1 if check.endswith("one") else heads - 1
    if board == "single-head":
        heads = 1
    d = C // heads
    weight = W_qkv.reshape(C, 3 * C).T if made.get("projection") == "transposed-weights" else W_qkv
    qkv = weight @ x.reshape(B, C, H * W)
    if board == "heads-before-three":
        three = qkv.reshape(B, heads, 3, d, H * W).transpose(2, 0, 1, 3, 4)
    elif board == "heads-before-three:last":
        three = qkv.reshape(B, heads, d, 3, H * W).transpose(3, 0, 1, 2, 4)
    elif board == "channels-torn":
        three = swap(qkv.reshape(B, 3, heads, H * W, d)).swapaxes(0, 1)
    elif board == "interleaved":
        three = qkv.reshape(B, 3, d, heads, H * W).transpose(1, 0, 3, 2, 4)
    else:
        three = qkv.reshape(B, 3, heads, d, H * W).swapaxes(0, 1)
    q, k, v = project(made, three, *(lambda t, i=i: t[i] for i in range(3)))  # (B, heads, d, squares)
    sizes = {"heads": heads, "d_model": C, "packed": 3 * C, "batch": B}
    if board == "over-channels":
        mixed, _ = attend(made, Inputs(q, k, v, sizes={**sizes, "d_k": d}))
    elif board in ("rows-only", "columns-only"):
        q, k, v = (t.reshape(B, heads, d, H, W) for t in (q, k, v))
        order = (0, 1, 3, 4, 2) if board == "rows-only" else (0, 1, 4, 3, 2)
        mixed, _ = attend(made, Inputs(*(t.transpose(order) for t in (q, k, v)), sizes=sizes))
        back = (0, 1, 4, 2, 3) if board == "rows-only" else (0, 1, 4, 3, 2)
        mixed = mixed.transpose(back).reshape(B, heads, d, H * W)
    elif board == "reshape-without-transpose":
        q, k, v = (t.reshape(B, heads, H * W, d) for t in (q, k, v))
        mixed = attend(made, Inputs(q, k, v, sizes=sizes))[0].reshape(B, heads, d, H * W)
    else:
        mixed, _ = attend(made, Inputs(swap(q), swap(k), swap(v), sizes=sizes))
        if board == "merge-without-transpose:tokens":
            mixed = swap(mixed.reshape(B, H * W, C))
        else:
            mixed = mixed if board == "merge-without-transpose" else swap(mixed)
    if board == "interleaved":
        mixed = mixed.reshape(B, heads, d, H * W).swapaxes(1, 2)
    mixed = mixed.reshape(B, C, H * W)
    if board == "board-transposed":
        mixed = swap(mixed.reshape(B, C, W, H)).reshape(B, C, H * W)
    output = made.get("output")
    flat = x.reshape(B, C, H * W)
    results = {
        "no-residual": lambda: W_out @ mixed,
        "no-output-projection": lambda: flat + mixed,
        "output-projection-transposed": lambda: flat + W_out.T @ mixed,
        "residual-twice": lambda: 2 * flat + W_out @ mixed,
        "residual-before-projection": lambda: W_out @ (flat + mixed),
    }
    return results.get(output, lambda: flat + W_out @ mixed)().reshape(B, C, H, W)
