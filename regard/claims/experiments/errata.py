"""What the documents get wrong: each item run as the document has it and as it should be."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import attend, divisors, masks
from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import chart
from regard.claims.charts.panels import Table
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.experiments.stable_softmax import DOCUMENT, naive
from regard.claims.source_documents import ALL
from regard.claims.statistics.rows import figure, values
from regard.claims.tasks.document_costs import corrected
from regard.languages import Bilingual
from regard.languages import bilingual as words
from regard.models import BoardConfig

Found = tuple[Bilingual, Bilingual, bool]  # as the document has it · as it is · whether the two differ


def weights_of_torch() -> Found:
    layer, x = nn.MultiheadAttention(512, 8, batch_first=True), torch.randn(2, 5, 512)
    mean, each = layer(x, x, x)[1], layer(x, x, x, average_attn_weights=False)[1]
    said, shapes = "(2, 8, 5, 5)", (tuple(mean.shape), tuple(each.shape))
    is_ = words(f"{shapes[0]}; per head {shapes[1]}", f"{shapes[0]};逐头为 {shapes[1]}")
    return words(said, said), is_, shapes[0] != (2, 8, 5, 5)


def start_of_linear() -> Found:
    weight = nn.Linear(512, 512).weight
    xavier, kaiming = (6 / 1024) ** 0.5, 512**-0.5
    bound = float(weight.abs().max().detach())
    right = abs(bound - kaiming) < abs(bound - xavier)
    return (
        words(f"Xavier, bound {xavier:.4f}", f"Xavier,界 {xavier:.4f}"),
        words(
            f"largest weight {bound:.4f}: Kaiming, bound {kaiming:.4f}",
            f"最大权重 {bound:.4f}:Kaiming,界 {kaiming:.4f}",
        ),
        right,
    )


def numpy_example() -> Found:
    draw = np.random.default_rng(int(torch.randint(2**31, ())))
    x, (w_q, w_k, w_v, w_o) = draw.standard_normal((10, DOCUMENT)), draw.standard_normal((4, DOCUMENT, DOCUMENT))
    q, k, v = (np.moveaxis((x @ w).reshape(10, 8, -1), 1, 0) for w in (w_q, w_k, w_v))
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.moveaxis(naive(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])) @ v, 0, 1).reshape(10, -1) @ w_o
    share = np.isnan(out).mean()
    return (
        words("an output", "有输出"),
        words(f"{100 * share:.0f} % NaN", f"{100 * share:.0f}% 为 NaN"),
        bool(share > 0),
    )


def similarity_picture() -> Found:
    query, keys = torch.randn(8), torch.randn(6, 8)
    drawn, real = torch.outer(keys @ query, keys @ query), keys @ keys.T
    ranks = [int(torch.linalg.matrix_rank(matrix)) for matrix in (drawn, real)]
    said = words(f"outer product, rank {ranks[0]}", f"外积，秩 {ranks[0]}")
    return said, words(f"QKᵀ, rank {ranks[1]}", f"QKᵀ,秩 {ranks[1]}"), ranks[0] == 1 < ranks[1]


def memory_formula() -> Found:
    right = corrected(8192)
    said, is_ = right.document / 2**20, right.materialised / 2**20
    return (
        words(f"{said:.0f} MiB at 8192 tokens", f"8192 个 token 时 {said:.0f} MiB"),
        words(f"{is_:,.0f} MiB with 8 heads", f"8 个头时 {is_:,.0f} MiB"),
        is_ > said,
    )


def operation_count() -> Found:
    right = corrected(512)
    said, is_ = right.document_operations / 1e9, right.operations / 1e9
    return (
        words(f"{said:.2f} G at 512 tokens", f"512 个 token 时 {said:.2f} G"),
        words(f"{is_:.2f} G with the four projections", f"计入四个投影为 {is_:.2f} G"),
        is_ > said,
    )


def light_preset() -> Found:
    layers = BoardConfig.preset("light").layers
    said, clamped = layers // BoardConfig.preset("light").attn_every, layers // min(4, 3)  # type: ignore[operator]
    return (
        words(f"attn_every 4, {said} attentions", f"attn_every 4,共 {said} 次注意力"),
        words(f"its code clamps to 3: {clamped} attentions", f"其代码限制为 3,共 {clamped} 次注意力"),
        said != clamped,
    )


def divisors_of_144() -> Found:
    after = [one for one in divisors(144) if one > 24]
    named = ", ".join(map(str, after))
    return words("end at 24", "到 24 为止"), words(f"go on: {named}", f"还有 {named}"), bool(after)


def nearest_of_128() -> Found:
    apart = min(abs(one - 24) for one in divisors(128))
    near = [one for one in divisors(128) if abs(one - 24) == apart]
    said = words("one nearest divisor of 128 to 24", "128 的约数中离 24 最近的只有一个")
    tie = words(f"a tie: {' and '.join(map(str, near))}", f"并列:{'、'.join(map(str, near))}")
    return said, tie, len(near) > 1


def mask_comment() -> Found:
    mask = torch.tensor([1, 0])
    filled = torch.zeros(2).masked_fill(mask == 0, float("-inf"))
    hidden = [int(value) for value in mask[filled.isinf()]]
    said = words("hidden where the mask is not 0", "掩码不为 0 处被遮住")
    return said, words(f"the code hides where it is {hidden[0]}", f"代码遮住的是为 {hidden[0]} 处"), hidden == [0]


def empty_row() -> Found:
    scores = torch.full((1, 4), float("-inf"))
    q = k = v = torch.randn(1, 4, 8)
    ours = attend(q, k, v, masks.given(torch.zeros(4, 4, dtype=torch.bool)))
    nan, finite = bool(scores.softmax(-1).isnan().all()), bool((_tensor(ours) == 0).all())
    return (
        words(
            f"softmax of −inf alone: {'NaN' if nan else 'finite'}", f"全为 −inf 的 softmax:{'NaN' if nan else '有限'}"
        ),
        words(f"regard: {'zeros' if finite else 'not zero'}", f"regard:{'全为零' if finite else '不为零'}"),
        nan,
    )


def transposed_weight() -> Found:
    layer, x = nn.Linear(8, 8, bias=False), torch.randn(3, 8)
    with torch.no_grad():
        straight = float((x @ layer.weight - layer(x)).abs().max())
        turned = float((x @ layer.weight.T - layer(x)).abs().max())
    return (
        words(f"x @ W: off by {straight:.2f}", f"x @ W:相差 {straight:.2f}"),
        words(f"x @ Wᵀ: off by {turned:.1g}", f"x @ Wᵀ:相差 {turned:.1g}"),
        turned < 1e-5 < straight,
    )


def _tensor(found: Any) -> Tensor:
    return found[0] if isinstance(found, tuple) else found


# The number in the list of errors, what it is about, and how it is run; None where it cannot be.
ITEMS: list[tuple[int, str, Callable[[], Found] | None]] = [
    (1, "weights of nn.MultiheadAttention", weights_of_torch),
    (2, "start of nn.Linear", start_of_linear),
    (3, "matrices printed as sample output", None),  # the documents' own text is not part of this project
    (4, "the NumPy multi-head example", numpy_example),
    (5, "the similarity picture", similarity_picture),
    (6, "memory formula", memory_formula),
    (6, "operation count", operation_count),
    (7, "the preset light", light_preset),
    (8, "divisors of 144", divisors_of_144),
    (8, "128 channels, 24 heads", nearest_of_128),
    (9, "comment on the mask", mask_comment),
    (10, "a row with nothing visible", empty_row),
    (11, "weight for x @ W", transposed_weight),
]

NOT_RUN = words("", ""), words("not run: it needs the documents' own text", "未运行：需要文档原文")
IN_CHINESE = {
    "weights of nn.MultiheadAttention": "nn.MultiheadAttention 的权重",
    "start of nn.Linear": "nn.Linear 的初始化",
    "matrices printed as sample output": "作为示例输出印出的矩阵",
    "the NumPy multi-head example": "NumPy 多头示例",
    "the similarity picture": "相似度图",
    "memory formula": "内存公式",
    "operation count": "运算量",
    "the preset light": "预设 light",
    "divisors of 144": "144 的约数",
    "128 channels, 24 heads": "128 通道,24 头",
    "comment on the mask": "关于掩码的注释",
    "a row with nothing visible": "全被遮住的一行",
    "weight for x @ W": "x @ W 的权重",
}


def parts(settings: Settings) -> list[Settings]:
    return [{}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    rows: list[Row] = []
    for number, about, run in ITEMS:
        said, is_, wrong = run() if run is not None else (*NOT_RUN, None)
        found = {"document": said["en"], "document_zh": said["zh"], "is": is_["en"], "is_zh": is_["zh"]}
        rows.append({"item": number, "about": about, **found, "wrong": wrong})
    return rows


def judge(rows: list[Row]) -> Conclusion:
    about = values(rows, "about")
    run = [one for one in about if all(row["wrong"] is not None for row in rows if row["about"] == one)]
    wrong = [one for one in run if all(row["wrong"] for row in rows if row["about"] == one)]
    figures = (
        figure(words("statements run", "已运行的条目"), len(run)),
        figure(words("of these, wrong as printed with every seed", "其中每个种子下均有误的条目"), len(wrong)),
        figure(words("not run", "未运行的条目"), len(about) - len(run)),
    )
    if not wrong:
        return Conclusion("holds", words("All is as the documents print it.", "与文档所述一致。"), figures)
    first = [row for row in rows if row["seed"] == min(values(rows, "seed"))]
    notes = tuple(
        words(
            f"{row['item']}. {row['about']}: {row['document'] or '–'} → {row['is']}",
            f"{row['item']}. {_zh(row, 'about')}:{_zh(row, 'document') or '–'} → {_zh(row, 'is')}",
        )
        for row in first
    )
    sentence = words(
        f"{len(wrong)} of the {len(run)} statements that were run are wrong as printed.",
        f"所运行的 {len(run)} 条中有 {len(wrong)} 条按原文有误。",
    )
    return Conclusion("does not hold here" if len(wrong) == len(run) else "holds when", sentence, figures, notes)


def _zh(row: Row, name: str) -> str:
    """In Chinese; a result of before there was any has it in English."""
    return str(IN_CHINESE.get(row[name]) or row.get(f"{name}_zh", row[name]))


def draw(rows: list[Row]) -> Chart:
    first = [row for row in rows if row["seed"] == min(values(rows, "seed"))]
    columns = (
        words("", ""),
        words("about", "关于"),
        words("as the document has it", "文档所写"),
        words("as it is", "实际"),
    )
    cells = tuple(
        (
            words(str(row["item"]), str(row["item"])),
            words(row["about"], _zh(row, "about")),
            words(row["document"], _zh(row, "document")),
            words(row["is"], _zh(row, "is")),
        )
        for row in first
    )
    return chart(words("The documents' errors, run", "文档的错误，逐条运行"), Table(columns, cells))


CLAIM = Claim(
    name="errata",
    title=words("The documents as printed", "文档原文"),
    statement=words(
        "The code, comments, shapes and figures of the documents are right as printed.",
        "文档中的代码、注释、形状与数字照原文都是正确的。",
    ),
    source=ALL,
    experiment=words(
        "Each statement that is on the list of errors is run as the document has it and as it should be.",
        "勘误表中的每一条都按原文与更正后各运行一次。",
    ),
    rule=words(
        "*holds* if none of the statements run is found wrong with every seed, *holds when* if some are, *does not "
        "hold here* if all are.",
        "若没有条目在每个种子下都有误则成立，部分有误则有条件成立，全部有误则不成立。",
    ),
    sizes={"tiny": {"seeds": 1}, "default": {"seeds": 5}, "full": {"seeds": 50}},
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
)
