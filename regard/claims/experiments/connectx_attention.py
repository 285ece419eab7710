"""Attention on the Connect Four board: does it play better for it, with how many heads, and do heads follow lines?

Positions come from random play with few squares left, so that the solver labels thousands in seconds; only those are
kept in which some legal move throws away the result and another does not.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars, chart, level
from regard.claims.charts.labels import chinese_label as zh
from regard.claims.charts.labels import label
from regard.claims.claim import Claim, Conclusion, Row, Settings
from regard.claims.source_documents import CONNECTX
from regard.claims.statistics.intervals import interval
from regard.claims.statistics.rows import difference, figure, over_seeds, values, where
from regard.claims.tasks.fit import Mark, fit, match_parameters, parameters
from regard.connectx import Boards, Solver
from regard.languages import bilingual as words
from regard.models import BoardConfig, BoardNet, attention_pattern
from regard.watching import watch

WITHOUT, MATCHED = "no attention", "no attention, equal parameters"
DIRECTIONS = ("row", "column", "rising", "falling")
STRONG = 1.5  # a head follows a direction if it has half as much again there as permuted maps have


@lru_cache(maxsize=2)
def positions(count: int, fewest: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Planes (N, 2, 6, 7), legal columns, columns that keep the result, and the result (−1, 0, 1) of each."""
    solver = Solver(table_bits=20)
    planes: list[Tensor] = []
    legal, kept, result = [], [], []
    draw = np.random.default_rng(seed)
    while len(planes) < count:
        boards = Boards(512, seed=int(draw.integers(2**31)))
        for _ in range(int(draw.integers(fewest, fewest + 8))):
            boards.step(boards.random_columns())
        shown, free = boards.planes(), boards.legal()
        for at in np.flatnonzero(boards.status == 0):
            scores = solver.move_scores(int(boards.position[at]), int(boards.mask[at]))
            signs = [None if score is None else int(np.sign(score)) for score in scores]
            best = max(sign for sign in signs if sign is not None)
            keeps = [sign == best for sign in signs]
            if sum(keeps) < int(free[at].sum()) and len(planes) < count:
                planes.append(torch.from_numpy(shown[at].copy()))
                legal.append(torch.from_numpy(free[at].copy()))
                kept.append(torch.tensor(keeps))
                result.append(float(best))
    return torch.stack(planes), torch.stack(legal), torch.stack(kept), torch.tensor(result)


def variants(settings: Settings) -> dict[str, dict[str, Any]]:
    """Name → what differs from the network with 6 heads after every second block."""
    found: dict[str, dict[str, Any]] = {WITHOUT: {"attn_every": None}, MATCHED: {"attn_every": None}}
    for heads in settings["heads"]:
        found[f"{heads} head{'s' if heads > 1 else ''}"] = {"heads": heads}
    for every in settings["every"]:
        found[f"attention every {every}"] = {"attn_every": every}
    return found


def network(settings: Settings, variant: str) -> BoardNet:
    own: dict[str, Any] = {"channels": settings["channels"], "heads": settings["main"], "layers": settings["layers"]}
    own |= {"attn_every": 2, "head_channels": 16, "value_hidden": 32}
    if variant == MATCHED:
        target = parameters(BoardNet(BoardConfig(**own)))
        found = match_parameters(
            lambda channels: BoardNet(BoardConfig(**{**own, "channels": channels, "heads": 1, "attn_every": None})),
            target, range(8, 2 * settings["channels"]),
        )  # fmt: skip
        assert isinstance(found, BoardNet)
        return found
    changes = variants(settings)[variant]
    if changes.get("attn_every", 2) is None:
        own["heads"] = 1
    return BoardNet(BoardConfig(**{**own, **changes}))


def kept_share(net: nn.Module, planes: Tensor, legal: Tensor, kept: Tensor) -> float:
    """How often the network's first choice keeps the result."""
    chosen = net(planes, legal).policy.argmax(-1, keepdim=True)
    return float(kept.gather(1, chosen).float().mean())


_TRAINED: dict[tuple[str, int, str], tuple[BoardNet, list[Mark]]] = {}  # of this run, for the arena and the lines


def trained(settings: Settings, variant: str, seed: int) -> tuple[BoardNet, list[Mark]]:
    key = (repr(sorted(settings.items())), seed, variant)
    if key in _TRAINED:
        return _TRAINED[key]
    planes, legal, kept, result = positions(settings["positions"], settings["fewest"], 2 * seed)
    test = positions(settings["test"], settings["fewest"], 2 * seed + 1)
    torch.manual_seed(seed)
    net = network(settings, variant)

    def loss(_: int) -> Tensor:
        chosen = torch.randint(len(planes), (settings["batch"],))
        x, may, good, end = planes[chosen], legal[chosen], kept[chosen], result[chosen]
        mirror = torch.rand(len(x)) < 0.5
        x, may, good = (torch.where(mirror.view(-1, *[1] * (t.dim() - 1)), t.flip(-1), t) for t in (x, may, good))
        judged = net(x, may)
        right = (judged.policy.log_softmax(-1).masked_fill(~good, 0) / good.sum(-1, keepdim=True)).sum(-1)
        return F.mse_loss(judged.value[:, 0], end) - right.mean()

    marks = fit(
        net,
        loss,
        settings["steps"],
        marks=settings["marks"],
        learning_rate=settings["rate"],
        score_of=lambda: kept_share(net, *test[:3]),
    )
    for old in [old for old in _TRAINED if old[1] != seed]:
        del _TRAINED[old]
    _TRAINED[key] = net.eval(), marks
    return _TRAINED[key]


def parts(settings: Settings) -> list[Settings]:
    found: list[Settings] = [{"what": "trained", "variant": variant} for variant in variants(settings)]
    return [*found, {"what": "arena"}, {"what": "lines", "net": "trained"}, {"what": "lines", "net": "untrained"}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    main = f"{settings['main']} heads"
    if part["what"] == "trained":
        net, marks = trained(settings, part["variant"], seed)
        count = parameters(net)
        return [
            {"step": mark.step, "seconds": mark.seconds, "accuracy": mark.score, "end": mark is marks[-1],
             "parameters": count, "main": part["variant"] == main}
            for mark in marks
        ]  # fmt: skip
    if part["what"] == "arena":
        return [
            {"against": other, "score": arena(settings, trained(settings, main, seed)[0],
                                              trained(settings, other, seed)[0], seed)}
            for other in (WITHOUT, MATCHED)
        ]  # fmt: skip
    net = trained(settings, main, seed)[0] if part["net"] == "trained" else network(settings, main).eval()
    return lines_of(settings, net, seed)


def arena(settings: Settings, one: BoardNet, other: BoardNet, seed: int) -> float:
    """Points of the one (a win 1, a draw ½): random openings, each from both sides, both choosing greedily."""
    points = []
    for first in (one, other):
        boards = Boards(settings["games"], seed=seed)
        for _ in range(8):
            boards.step(boards.random_columns())
        going = boards.status == 0
        turn = first
        while (boards.status == 0).any():
            with torch.no_grad():
                legal = torch.from_numpy(boards.legal())
                policy = turn(torch.from_numpy(boards.planes())).policy.masked_fill(~legal, -1e9)
            before = boards.status.copy()
            status = boards.step(policy.argmax(-1).numpy())
            for at in np.flatnonzero((before == 0) & (status != 0) & going):
                points.append(0.5 if status[at] == 2 else float(turn is one))
            turn = other if turn is one else one
    return float(np.mean(points))


def lines_of(settings: Settings, net: BoardNet, seed: int) -> list[Row]:
    """Where the heads of a network look, on positions it was not trained on."""
    planes = positions(settings["test"], settings["fewest"], 2 * seed + 1)[0][: settings["looked"]]
    with torch.no_grad(), watch(net) as seen:
        net(planes)
    return along_lines(torch.cat([call.weights().mean(0) for call in seen.calls]), settings["permutations"])


def along_lines(maps: Tensor, permutations: int) -> list[Row]:
    """For every head's map (heads, 42, 42) and direction: the mass on it, and how often a permuted map has as much.

    Near squares get more weight and lie on lines more often. So weights are permuted only among squares as far from the
    query (in moves of a king): what is tested is direction alone. A query's own square is left out.
    """
    away = 1 - torch.eye(42)
    maps = maps * away
    maps = maps / maps.sum(-1, keepdim=True).clamp_min(1e-12)
    sights = torch.stack([attention_pattern(direction, 6, 7) for direction in DIRECTIONS]).float() * away
    found = torch.einsum("hqk,dqk->hd", maps, sights) / 42
    square = torch.arange(42)
    king = torch.maximum((square[:, None] // 7 - square // 7).abs(), (square[:, None] % 7 - square % 7).abs()).float()
    in_order = king.argsort(dim=-1, stable=True)
    as_much, total = torch.zeros_like(found), torch.zeros_like(found)
    for _ in range(permutations):
        shuffled = (king + 0.5 * torch.rand(42, 42)).argsort(-1)  # the same rings, each in any order
        places = torch.empty(42, 42, dtype=torch.long).scatter_(-1, in_order, shuffled)
        null = torch.einsum("hqk,dqk->hd", maps, sights.gather(-1, places.expand(4, -1, -1))) / 42
        as_much, total = as_much + (null >= found - 1e-6), total + null
    mean, p = total / permutations, (1 + as_much) / (1 + permutations)
    return [
        {
            "head": head,
            "direction": direction,
            "mass": float(found[head, at]),
            "p": float(p[head, at]),
            "ratio": float(found[head, at] / mean[head, at]),
        }
        for head in range(len(maps))
        for at, direction in enumerate(DIRECTIONS)
    ]


def special(rows: list[Row], net: str) -> tuple[dict[int, float], set[str]]:
    """The share of heads that follow a direction, for each seed, and the directions that are followed."""
    share, followed = {}, set()
    for seed in values(rows, "seed"):
        own = where(rows, what="lines", net=net, seed=seed)
        follows = [row for row in own if row["p"] < 0.05 / len(own) and row["ratio"] >= STRONG]
        share[seed] = len(values(follows, "head")) / len(values(own, "head"))
        followed |= set(values(follows, "direction"))
    return share, followed


def at_equal_time(rows: list[Row]) -> dict[str, dict[int, float]]:
    """Accuracy of each variant when the quickest of its seed was done."""
    found: dict[str, dict[int, float]] = {}
    for seed in values(rows, "seed"):
        own = where(rows, what="trained", seed=seed)
        until = min(row["seconds"] for row in own if row["end"])
        for variant in values(own, "variant"):
            marks = [row for row in where(own, variant=variant) if row["seconds"] <= until] or where(
                own, variant=variant
            )[:1]
            found.setdefault(variant, {})[seed] = marks[-1]["accuracy"]
    return found


def judge(rows: list[Row]) -> Conclusion:
    ends = where(rows, what="trained", end=True)
    names = values(ends, "variant")
    heads = sorted((name for name in names if name[0].isdigit()), key=lambda name: int(name.split()[0]))
    main = _main(rows)
    gain = difference(ends, "accuracy", {"variant": main}, {"variant": MATCHED})
    timely = at_equal_time(rows)
    gain_time = interval([timely[main][seed] - timely[WITHOUT][seed] for seed in timely[main]])
    more = difference(ends, "accuracy", {"variant": heads[-1]}, {"variant": heads[0]})
    played = over_seeds(rows, "score", what="arena", against=MATCHED)
    lined, followed = special(rows, "trained")
    raw, _ = special(rows, "untrained")
    follow, before = interval(list(lined.values())), interval(list(raw.values()))
    figures = (
        *(
            figure(
                words(f"moves that keep the result: {name}", f"保住结果的着法:{zh(name)}"),
                over_seeds(ends, "accuracy", variant=name),
                "%",
            )
            for name in names
        ),
        figure(
            words(f"{main} minus equal parameters without attention, equal updates", "有无注意力之差(同参数、同更新)"),
            gain,
            "%",
        ),
        figure(
            words(f"{main} minus the same blocks without attention, equal time", "有无注意力之差(同时间)"),
            gain_time,
            "%",
        ),
        figure(
            words(f"arena, {main} against {WITHOUT}", f"对局得分，对{zh(WITHOUT)}"),
            over_seeds(rows, "score", what="arena", against=WITHOUT),
            "%",
        ),
        figure(words(f"arena, {main} against {MATCHED}", f"对局得分，对{zh(MATCHED)}"), played, "%"),
        figure(words("heads that follow a direction, trained", "沿某方向的头所占比例，训练后"), follow, "%"),
        figure(words("the same, untrained", "同上，未训练"), before, "%"),
    )
    kinds = {"row", "column"} <= followed and bool({"rising", "falling"} & followed)
    said = {
        "attention helps with equal parameters": gain.above,
        "attention helps in equal time": gain_time.above,
        "attention wins in the arena": played.low > 0.5,
        f"{heads[-1]} beat {heads[0]}": more.above,
        "half of the heads or more follow rows, columns and diagonals": follow.mean >= 0.5 and kinds,
    }
    in_chinese = {
        "attention helps with equal parameters": "同参数下注意力有益",
        "attention helps in equal time": "同时间下注意力有益",
        "attention wins in the arena": "对局中注意力占优", f"{heads[-1]} beat {heads[0]}": "头多优于头少",
        "half of the heads or more follow rows, columns and diagonals": "半数以上的头沿行、列、斜线分工",
    }  # fmt: skip
    right = [name for name, true in said.items() if true]
    wrong = [name for name, true in said.items() if not true]
    sentence = words(
        (f"Found: {'; '.join(right)}. " if right else "") + (f"Not found: {'; '.join(wrong)}." if wrong else ""),
        (f"成立:{';'.join(in_chinese[name] for name in right)}。" if right else "")
        + (f"不成立:{';'.join(in_chinese[name] for name in wrong)}。" if wrong else ""),
    )
    verdict = "holds" if not wrong else "holds when" if right else "does not hold here"
    return Conclusion(verdict, sentence, figures)  # type: ignore[arg-type]


def _main(rows: list[Row]) -> str:
    """The network that is put beside those without attention, and whose heads are looked at."""
    return str(values(where(rows, what="trained", main=True), "variant")[0])


def draw(rows: list[Row]) -> Chart:
    ends, arena = where(rows, what="trained", end=True), where(rows, what="arena")
    accuracy = bars(
        ends,
        "variant",
        "accuracy",
        title=words("moves that keep the result", "保住结果的走法"),
        percent=True,
        horizontal=True,
    )
    games = bars(
        arena,
        "against",
        "score",
        title=words("arena, against no attention", "对局得分，对无注意力"),
        percent=True,
        categories={WITHOUT: label("same blocks"), MATCHED: label("equal parameters")},
        reference_lines=(level(0.5, words("even", "平手")),),
    )
    directions = bars(
        where(rows, what="lines"),
        "direction",
        "ratio",
        "net",
        title=words("mass along lines / permuted", "沿各方向的权重 / 打乱后"),
        reference_lines=(level(1, words("permuted", "打乱")),),
    )
    return chart(words("Attention on the Connect Four board", "四子棋棋盘上的注意力"), accuracy, games, directions)


CLAIM = Claim(
    name="connectx-attention",
    title=words("Attention on the board", "棋盘上的注意力"),
    statement=words(
        "Attention helps a Connect Four network with long lines, more heads represent more, and heads specialise in "
        "rows, columns and diagonals.",
        "注意力有助于四子棋网络处理长线；头越多表示越强；不同的头分工于横、竖、斜线。",
    ),
    source=(CONNECTX,),
    experiment=words(
        "Small board networks with no attention, with 1, 6, 12 and 24 heads, and with attention after every 1, 2 and "
        "4 blocks, trained on the same solved positions of late random play; tested on others: how often the first "
        "choice keeps the result. Games between them from random openings, both sides. For every head the mass along "
        "each line direction against maps permuted among squares equally far away.",
        "小型棋盘网络：无注意力、1/6/12/24 头、每 1/2/4 块一次注意力，用求解器标注的残局训练并测试是否保住结果；"
        "互相对局;"
        "并以等距置换检验每个头沿各方向的权重。",
    ),
    rule=words(
        "Five statements: against a wider network without attention of as many parameters, accuracy is higher after "
        "equal updates; against the same blocks without attention, after equal time (paired intervals above 0); the "
        f"arena's interval lies above 50 %; the most heads beat the fewest; half of the heads or more have {STRONG} "
        "times the permuted mass along a direction (p < 0.05, Bonferroni), with rows, columns and a diagonal among "
        "them. *holds* if all five are so, *does not hold here* if none, else *holds when*.",
        "五条：同参数同更新更准；同时间更准；对局区间高于 50%；最多头优于最少头；"
        "半数以上的头沿某方向的权重达置换的 1.5 倍"
        "且显著，并涵盖横、竖、斜。全部满足则成立，全不满足则不成立，其余为有条件成立。",
    ),
    sizes={
        "tiny": {
            "seeds": 2,
            "positions": 24,
            "test": 16,
            "fewest": 30,
            "channels": 12,
            "layers": 2,
            "main": 6,
            "heads": (1, 6),
            "every": (1,),
            "batch": 8,
            "steps": 2,
            "marks": 2,
            "rate": 2e-3,
            "games": 4,
            "looked": 8,
            "permutations": 20,
        },
        "default": {
            "seeds": 3,
            "positions": 3000,
            "test": 400,
            "fewest": 24,
            "channels": 48,
            "layers": 4,
            "main": 6,
            "heads": (1, 6, 12, 24),
            "every": (1, 4),
            "batch": 64,
            "steps": 100,
            "marks": 10,
            "rate": 2e-3,
            "games": 200,
            "looked": 200,
            "permutations": 1000,
        },
        "full": {
            "seeds": 5,
            "positions": 30000,
            "test": 4000,
            "fewest": 20,
            "channels": 144,
            "layers": 8,
            "main": 6,
            "heads": (1, 6, 12, 24),
            "every": (1, 3, 4),
            "batch": 256,
            "steps": 3000,
            "marks": 20,
            "rate": 1e-3,
            "games": 1000,
            "looked": 1000,
            "permutations": 5000,
        },
    },
    parts=parts,
    measure=measure,
    judge=judge,
    draw=draw,
    timed=True,
)
