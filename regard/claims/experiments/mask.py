"""The leak: a decoder trained without its mask copies the answer from the future, and then has none to copy."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chart, level
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import TRANSFORMER
from regard.claims.statistics.rows import difference, figure, over_seeds
from regard.claims.tasks.fit import fit
from regard.languages import bilingual as words
from regard.models import Decoder, DecoderConfig, Encoder, EncoderConfig

MODULUS = 7
WAYS = ("mask on", "mask off")


def sequences(batch: int, length: int) -> Tensor:
    """Each token the sum of the two before it, modulo 7, from two random ones: (B, length)."""
    tokens = [torch.randint(MODULUS, (batch,)) for _ in range(2)]
    while len(tokens) < length:
        tokens.append((tokens[-1] + tokens[-2]) % MODULUS)
    return torch.stack(tokens, 1)


def parts(settings: Settings) -> list[Settings]:
    return [{"way": way} for way in WAYS]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    length = settings["length"]
    sizes: dict[str, Any] = {
        "d_model": settings["width"], "heads": 4, "layers": 2, "context": length, "dropout": 0.0, "norm": "pre",
        "positions": "learned", "tied": False,
    }  # fmt: skip
    model: Any
    if part["way"] == "mask on":
        model = Decoder(DecoderConfig(MODULUS, **sizes))
        scores = model
    else:
        model = Encoder(EncoderConfig(MODULUS, **sizes))
        scores = model.logits

    def loss(_: int) -> Tensor:
        tokens = sequences(settings["batch"], length + 1)
        return F.cross_entropy(scores(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    fit(model, loss, settings["steps"], learning_rate=settings["rate"])
    model.eval()
    tokens = sequences(settings["test"], length + 1)
    with torch.no_grad():
        given = scores(tokens[:, :-1])
        told = (given.argmax(-1) == tokens[:, 1:])[:, 1:].float().mean()  # but the first, which is random
        changed = tokens.clone()
        changed[:, -2] = (changed[:, -2] + 1) % MODULUS
        moved = (scores(changed[:, :-1]) - given)[:, :-1].abs().max()
        written = tokens[:, :2]
        while written.shape[1] < length:
            written = torch.cat([written, scores(written)[:, -1].argmax(-1, keepdim=True)], 1)
        right = (written[:, 2:] == (written[:, 1:-1] + written[:, :-2]) % MODULUS).float().mean()
    return [{"training": float(told), "generation": float(right), "leak": float(moved)}]


def judge(rows: list[Row]) -> Conclusion:
    seen = {(way, what): over_seeds(rows, what, way=way) for way in WAYS for what in ("training", "generation")}
    fall = difference(rows, "generation", {"way": "mask on"}, {"way": "mask off"})
    leaks = [max(row["leak"] for row in rows if row["way"] == way) for way in WAYS]
    ways = {"training": ("in training's way", "训练方式下的正确率"), "generation": ("in generation", "生成时的正确率")}
    figures = (
        *(
            figure(words(f"right next tokens, {way}, {en}", f"{zh(way)}:{in_chinese}"), seen[way, what], "%")
            for what, (en, in_chinese) in ways.items()
            for way in WAYS
        ),
        figure(
            words("change of earlier scores when the last token changes, mask on", "改变末位时此前分数的变化，有掩码"),
            leaks[0],
        ),
        figure(words("the same, mask off", "同上，无掩码"), leaks[1]),
    )
    cheats = seen["mask off", "training"].low > 0.9 and seen["mask off", "generation"].high < 0.5
    sound = seen["mask on", "generation"].low > 0.9 and leaks[0] < 1e-4 < leaks[1]
    told, wrote = (100 * seen["mask off", what].mean for what in ("training", "generation"))
    if cheats and sound:
        sentence = words(
            f"Without the mask {told:.0f} % are right in training and {wrote:.0f} % when it must write by itself "
            f"(chance is {100 / MODULUS:.0f} %); with it {100 * seen['mask on', 'generation'].mean:.0f} %.",
            f"无掩码时训练正确率 {told:.0f}%,自行生成仅 {wrote:.0f}%;有掩码时生成正确率 "
            f"{100 * seen['mask on', 'generation'].mean:.0f}%。",
        )
        return Conclusion("holds", sentence, figures)
    if fall.above and leaks[0] < 1e-4 < leaks[1]:
        sentence = words(
            "The mask keeps the future out and generation is better with it, but by less than the rule asks: "
            f"{told:.0f} % in training and {wrote:.0f} % in generation without it.",
            f"掩码确实隔断未来且生成更好，但差距小于判据：无掩码训练 {told:.0f}%,生成 {wrote:.0f}%。",
        )
        return Conclusion("holds when", sentence, figures)
    sentence = words("Training without the mask does not harm generation.", "训练时去掉掩码并不损害生成。")
    return Conclusion("does not hold here", sentence, figures)


def draw(rows: list[Row]) -> Chart:
    shown = [
        {"seed": row["seed"], "way": row["way"], "when": name, "share": row[what]}
        for row in rows
        for what, name in (("training", "in training's way"), ("generation", "when it writes"))
    ]
    right = bars(
        shown, "when", "share", "way", y_label=words("share of right next tokens", "下一个 token 的正确率"),
        percent=True,
        reference_lines=(level(1 / MODULUS),),
    )  # fmt: skip
    return chart(words("A decoder trained with and without its mask", "有掩码与无掩码训练的解码器"), right)


CLAIM = Claim(
    name="mask",
    title=words("The mask keeps the future out", "掩码隔断未来"),
    statement=words(
        "A decoder must not see the future while it is trained: the look-ahead mask sets those scores to −inf.",
        "解码器训练时不能看到未来：前瞻掩码把这些分数设为 −inf。",
    ),
    source=(TRANSFORMER,),
    experiment=words(
        "Sequences in which each token is the sum of the two before it modulo 7, from two random ones. The same "
        "layers are trained to name the next token with the mask on and off, then tested as in training, and writing "
        "by themselves; and the last token is changed to see whether earlier scores move.",
        "序列中每个 token 为前两个之和模 7。同样的层分别在有、无掩码下训练预测下一个 token,再按训练方式与自行生成测试;"
        "并改变末位 token 观察此前分数是否变化。",
    ),
    rule=words(
        "*holds* if without the mask more than 90 % are right in training's way and fewer than 50 % in generation, "
        "with it more than 90 % in generation (ends of the intervals), and earlier scores move by less than 1e-4 with "
        "the mask and more without; *holds when* if generation is better with the mask by less than that; else *does "
        "not hold here*.",
        "无掩码训练正确率超过 90% 而生成低于 50%,有掩码生成超过 90%,且泄漏检验符合，则成立；"
        "仅差距较小则有条件成立；否则"
        "不成立。",
    ),
    sizes={
        "tiny": {"seeds": 2, "width": 16, "length": 6, "steps": 3, "batch": 8, "test": 8, "rate": 3e-3},
        "default": {"seeds": 3, "width": 64, "length": 16, "steps": 300, "batch": 64, "test": 256, "rate": 3e-3},
        "full": {"seeds": 10, "width": 64, "length": 32, "steps": 2000, "batch": 64, "test": 1024, "rate": 2e-3},
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
)
