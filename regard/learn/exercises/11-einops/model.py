"""The exercise in NumPy, with the mistakes that can be made in each part."""

from regard.learn.mistakes import heads, parts
from regard.learn.mistakes.attention import Inputs, attend
from regard.learn.mistakes.projections import PROJECTIONS, project

SPLITS = [name for name in heads.SPLITS if not name.startswith(("queries", "keys", "values", "single"))]
PARTS = {
    "split": (*SPLITS, *(f"{name}:packed" for name in SPLITS)),
    "merge": heads.MERGES,
    "packed": ("packed-by-head", "packed-interleaved", "packed-columns-interleaved", "packed-order:(d three h)",
               "packed-order:(d h three)", "packed-order:(h d three)", "single-head",
               "reshape-without-transpose:packed-only",
               "merge-without-transpose:packed-only", "merge-interleaved:packed-only", "not-merged:packed-only"),
    "projection": [name for name in PROJECTIONS if "projected" not in name],
    "scale": parts.without(parts.SCALES, "scaled-by-axis", "scaled-by-queries", "scaled-by-values",
        "divided-by-values"),
    "scores": parts.without(parts.SCORES, "scores-transposed"),
    "softmax": parts.SOFTMAXES,
    "maximum": parts.MAXIMUMS,
    "mix": parts.MIXES,
    "heads": heads.HEADS,
    "batch": parts.BATCHES[:-1],
}  # fmt: skip


def model(made, x, qkv, n_heads):
    in_packed = made.get("split", "").endswith(":packed")
    plain = {**made, "split": made.get("split", "").removesuffix(":packed")}
    split = heads.split(plain, x, n_heads)
    merged = heads.merge({"split": plain["split"] if plain["split"] == "interleaved" else "", **_merge(made)}, split)
    B, S, D3 = qkv.shape
    D, packed = D3 // 3, made.get("packed")
    if packed == "packed-by-head":
        three = qkv.reshape(B, S, n_heads, 3, D // n_heads).transpose(3, 0, 1, 2, 4).reshape(3, B, S, D)
    elif packed and packed.startswith("packed-order"):
        letters = packed.removeprefix("packed-order:(").removesuffix(")").split()
        sizes = {"three": 3, "h": n_heads, "d": D // n_heads}
        read = qkv.reshape(B, S, *(sizes[letter] for letter in letters))
        three = read.transpose(
            *(2 + letters.index(n) if n in letters else "bs".index(n) for n in ("three", "b", "s", "h", "d"))
        )
        three = three.reshape(3, B, S, D)
    elif packed == "packed-columns-interleaved":
        three = qkv.reshape(B, S, D, 3).transpose(3, 0, 1, 2)
    else:
        three = qkv.reshape(B, S, 3, D).transpose(2, 0, 1, 3)
    inside = {"split": plain["split"] if in_packed else ""}
    if packed in ("packed-interleaved", "single-head", "reshape-without-transpose:packed-only"):
        inside = {"split": {"packed-interleaved": "split-interleaved"}.get(packed, packed.partition(":")[0])}
    chosen = project(made, three, *(lambda t, i=i: heads.split(inside, t[i], n_heads) for i in range(3)))
    mixed, _ = attend(made, Inputs(*chosen, sizes={"heads": n_heads, "d_model": D, "packed": 3 * D, "batch": B}))
    if packed in ("merge-without-transpose:packed-only", "merge-interleaved:packed-only"):
        result = heads.merge({"merge": packed.partition(":")[0]}, mixed)
    elif packed == "not-merged:packed-only":
        result = mixed
    else:
        result = heads.merge({"split": "interleaved" if plain["split"] == "interleaved" else "", **_merge(made)}, mixed)
    return split, merged, result


def _merge(made):
    return {"merge": made["merge"]} if "merge" in made else {}
