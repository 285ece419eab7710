"""Drills that count: shapes, parameters, operations, bytes of the cache."""

from collections.abc import Sequence
from random import Random

from regard.languages import Bilingual, bilingual
from regard.learn.drills.drill import Compute, Mistake, Step, Values
from regard.learn.drills.matrices import Matrix, matrix
from regard.learn.drills.task import Task

HEADS_BEHIND = bilingual(
    "The heads stand behind the tokens: after view comes transpose(1, 2), so that each head has its own (L, d_k).",
    "头的维度还在词元后面：view 之后要 transpose(1, 2)，让每个头有自己的 (L, d_k)。",
)
NOT_SPLIT = bilingual(
    "The width is still d_model; a head has d_k = d_model / H.", "宽度还是 d_model；每个头的宽度是 d_k = d_model / H。"
)
SWAPPED = bilingual(
    "Queries and keys are swapped: rows are queries (L), columns keys (S).",
    "查询和键弄反了：行是查询（L），列是键（S）。",
)
BIAS = bilingual("It looks as if the biases were forgotten.", "看起来忘了偏置。")
TIMES_HEADS = bilingual(
    "It looks as if you multiplied by the heads: they share the width, so together they are as large as one head.",
    "看起来又乘了头数：各个头瓜分同一个宽度，合起来与单头一样大。",
)
THREE = bilingual("It looks as if the output projection W_o was forgotten.", "看起来忘了输出投影 W_o。")
MULTIPLY_ADDS = bilingual(
    "These are multiply-adds; counted as operations each is two, a product and a sum.",
    "这是乘加次数；按运算次数算，一次乘加是一乘一加，共两次。",
)
NO_HEADS = bilingual(
    "It looks as if the heads were forgotten: each has an S×S matrix of its own.",
    "看起来忘了头数：每个头都有自己的 S×S 矩阵。",
)
NO_BATCH = bilingual("It looks as if the batch was forgotten.", "看起来忘了批大小。")
ELEMENTS = bilingual(
    "These are numbers, not bytes: float32 takes 4 bytes.", "这是元素个数，不是字节数：float32 每个数占 4 字节。"
)
HALF = bilingual(
    "Half of it: the cache holds keys and values, and each number of bfloat16 takes 2 bytes.",
    "只有一半：缓存里既有键也有值，而且 bfloat16 每个数占 2 字节。",
)
ALL_HEADS = bilingual(
    "It looks as if all query heads were counted: the cache holds only the key/value heads.",
    "看起来按查询头的个数算了：缓存里只有键值头。",
)
ONE_NORM = bilingual(
    "A layer has two norms, each with a scale and a shift of width d_model.",
    "一层有两个层归一化，各有宽度为 d_model 的缩放和平移参数。",
)


def shapes(random: Random) -> Task:
    """The shape after every step of a cross-attention layer."""
    d_k, heads = random.choice((8, 16, 32, 64)), random.choice((2, 4, 8, 12))
    batch, queries, keys = random.sample(range(2, 16), 3)
    width = d_k * heads
    split, flipped = [batch, heads, queries, d_k], [batch, queries, heads, d_k]
    steps = (
        _row("Q", "Q = x·W_q, before the split", "Q = x·W_q，拆分之前", [batch, queries, width], []),
        _row(
            "Q split",
            "Q split into heads",
            "Q 拆成多头之后",
            split,
            [("heads-behind", HEADS_BEHIND, flipped), ("not-split", NOT_SPLIT, [batch, heads, queries, width])],
        ),
        _row(
            "K split",
            "K split into heads",
            "K 拆成多头之后",
            [batch, heads, keys, d_k],
            [("heads-behind", HEADS_BEHIND, [batch, keys, heads, d_k]), ("swapped", SWAPPED, split)],
        ),
        _row(
            "scores",
            "the scores Q·Kᵀ",
            "分数 Q·Kᵀ",
            [batch, heads, queries, keys],
            [("swapped", SWAPPED, [batch, heads, keys, queries])],
        ),
        _row(
            "context",
            "weights · V",
            "权重 · V",
            split,
            [("swapped", SWAPPED, [batch, heads, keys, d_k]), ("heads-behind", HEADS_BEHIND, flipped)],
        ),
        _row(
            "merged",
            "the heads merged",
            "合并多头之后",
            [batch, queries, width],
            [
                (
                    "not-merged",
                    bilingual(
                        "Merged, the heads are side by side in the width: H·d_k = d_model.",
                        "合并后各个头并排在宽度方向：H·d_k = d_model。",
                    ),
                    [batch, queries, d_k],
                )
            ],
        ),
    )
    return Task(
        bilingual("Shapes", "形状"),
        f"Cross-attention: batch {batch}, L = {queries} queries, S = {keys} keys, d_model = {width}, H = {heads}. "
        "Give each shape, such as 2, 8, 5, 64.",
        f"交叉注意力：批大小 {batch}，查询 L = {queries} 个，键 S = {keys} 个，d_model = {width}，头数 H = {heads}。"
        "写出每一步的形状，例如 2, 8, 5, 64。",
        {},
        steps,
    )


def parameters(random: Random) -> Task:
    """The parameters of an encoder layer."""
    heads, d_k, times = (
        random.choice((2, 4, 6, 8, 12)),
        random.choice((8, 10, 16, 20, 32, 50, 64)),
        random.choice((2, 3, 4)),
    )
    width = heads * d_k
    wide = times * width
    one, forward = width * width + width, 2 * width * wide + wide + width
    steps = (
        _number(
            "projection",
            "one projection, W_q with its bias",
            "一个投影：W_q 加偏置",
            one,
            [("no-bias", BIAS, width * width), ("times-heads", TIMES_HEADS, one * heads)],
        ),
        _of(
            "attention",
            "the attention layer: all four projections",
            "整个注意力层：四个投影",
            [("projection", 4)],
            0,
            [("three", THREE, [("projection", 3)], 0), ("times-heads", TIMES_HEADS, [("projection", 4 * heads)], 0)],
        ),
        _number(
            "feed-forward",
            f"the feed-forward part, d_model → {wide} → d_model, with biases",
            f"前馈部分：d_model → {wide} → d_model，含偏置",
            forward,
            [("no-bias", BIAS, 2 * width * wide)],
        ),
        _of(
            "layer",
            "the encoder layer, with its two layer norms",
            "整个编码器层，含两个层归一化",
            [("attention", 1), ("feed-forward", 1)],
            4 * width,
            [
                ("one-norm", ONE_NORM, [("attention", 1), ("feed-forward", 1)], 2 * width),
                ("no-norm", ONE_NORM, [("attention", 1), ("feed-forward", 1)], 0),
            ],
        ),
    )
    return Task(
        bilingual("Parameters of a layer", "一层的参数量"),
        f"An encoder layer with d_model = {width}, {heads} heads, a feed-forward width of {wide}, biases everywhere.",
        f"一个编码器层：d_model = {width}，{heads} 个头，前馈宽度 {wide}，处处有偏置。",
        {},
        steps,
    )


def operations(random: Random) -> Task:
    """Operations and bytes of a layer over a sequence."""
    heads, d_k = random.choice((2, 4, 5, 8)), random.choice((10, 16, 20, 32, 64))
    seq, batch, width = random.choice((10, 20, 32, 50, 64, 100, 128)), random.choice((2, 3, 6, 10)), heads * d_k
    four, pair = 8 * seq * width * width, 2 * seq * seq * width
    cells = batch * heads * seq * seq
    steps = (
        _number(
            "projections",
            "operations of the four projections, for one sequence",
            "四个投影的运算次数（一条序列）",
            four,
            [
                ("multiply-adds", MULTIPLY_ADDS, four // 2),
                ("three", THREE, four * 3 // 4),
                ("times-heads", TIMES_HEADS, four * heads),
            ],
        ),
        _number(
            "scores",
            "operations of Q·Kᵀ over all heads",
            "所有头的 Q·Kᵀ 的运算次数",
            pair,
            [("multiply-adds", MULTIPLY_ADDS, pair // 2), ("times-heads", TIMES_HEADS, pair * heads)],
        ),
        _of(
            "both", "operations of Q·Kᵀ and weights·V together", "Q·Kᵀ 与 权重·V 合计的运算次数", [("scores", 2)], 0, []
        ),
        _number(
            "matrix",
            f"bytes of the attention matrices of the whole batch of {batch}, float32",
            f"整批 {batch} 条序列的注意力矩阵占多少字节（float32）",
            4 * cells,
            [
                ("no-heads", NO_HEADS, 4 * cells // heads),
                ("no-batch", NO_BATCH, 4 * cells // batch),
                ("elements", ELEMENTS, cells),
            ],
        ),
    )
    return Task(
        bilingual("What a layer costs", "一层的代价"),
        f"Self-attention over S = {seq} tokens, d_model = {width}, {heads} heads. A multiply-add is two operations; "
        "leave softmax and biases out.",
        f"对 S = {seq} 个词元做自注意力，d_model = {width}，{heads} 个头。一次乘加算两次运算；不计 softmax 和偏置。",
        {},
        steps,
    )


def cache(random: Random) -> Task:
    """The bytes of a KV cache."""
    layers, d_k = random.choice((2, 4, 6, 10, 12, 20, 24, 32)), random.choice((32, 50, 64, 100, 128))
    heads, kv_heads = random.choice(((8, 2), (12, 4), (16, 4), (32, 8)))
    tokens = random.choice((100, 500, 1000, 2000, 4000))
    each = 2 * kv_heads * d_k * 2
    steps = (
        _number(
            "token",
            "bytes that one token adds in one layer",
            "一个词元在一层里占多少字节",
            each,
            [("keys-only", HALF, each // 2), ("all-heads", ALL_HEADS, each // kv_heads * heads)],
        ),
        _of(
            "cache",
            f"bytes of the cache for {tokens} tokens in all {layers} layers",
            f"{layers} 层、{tokens} 个词元的缓存共占多少字节",
            [("token", tokens * layers)],
            0,
            [
                (
                    "one-layer",
                    bilingual("It looks as if the layers were forgotten.", "看起来忘了层数。"),
                    [("token", tokens)],
                    0,
                )
            ],
        ),
        _number(
            "ratio",
            "how many times larger it would be if every query head had its own keys and values",
            "如果每个查询头都有自己的键和值，缓存会大多少倍",
            heads // kv_heads,
            [],
        ),
    )
    return Task(
        bilingual("The KV cache", "键值缓存"),
        f"A decoder with {layers} layers, {heads} query heads and {kv_heads} key/value heads of width {d_k}, "
        "in bfloat16 (2 bytes), batch 1.",
        f"一个解码器：{layers} 层，{heads} 个查询头，{kv_heads} 个键值头，头宽 {d_k}，bfloat16（2 字节），批大小 1。",
        {},
        steps,
    )


def _row(
    name: str, en: str, zh: str, right: Sequence[int], mistakes: Sequence[tuple[str, Bilingual, Sequence[int]]]
) -> Step:
    wrong = tuple(Mistake(key, says, _constant(numbers)) for key, says, numbers in mistakes)
    return Step(name, bilingual(en, zh), _constant(right), wrong)


def _number(name: str, en: str, zh: str, right: int, mistakes: Sequence[tuple[str, Bilingual, int]]) -> Step:
    return _row(name, en, zh, [right], [(key, says, [number]) for key, says, number in mistakes])


Parts = Sequence[tuple[str, int]]  # earlier steps, each so many times


def _of(
    name: str, en: str, zh: str, parts: Parts, more: int, mistakes: Sequence[tuple[str, Bilingual, Parts, int]]
) -> Step:
    wrong = tuple(Mistake(key, says, _sum(others, number)) for key, says, others, number in mistakes)
    return Step(name, bilingual(en, zh), _sum(parts, more), wrong)


def _constant(numbers: Sequence[int]) -> Compute:
    return lambda _: matrix([numbers])


def _sum(parts: Parts, more: int) -> Compute:
    def compute(values: Values) -> Matrix:
        [[result]] = matrix([[more]])
        for name, times in parts:
            [[factor]] = matrix([[times]])
            result = result + values[name][0][0] * factor
        return [[result]]

    return compute
