"""Attention on the Connect Four board: does it improve play, do more heads help, and do heads follow lines?

Positions come from random play with few squares left, so that the solver labels thousands in seconds. Only positions
are used in which one legal move keeps the result of perfect play (win, draw or loss) and another worsens it.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars
from regard.claims.charts.labels import label
from regard.claims.charts.panels import ReferenceLine
from regard.claims.claim import Conclusion, Row, Settings, Verdict
from regard.claims.definition import Definition, enumerate_in_words
from regard.claims.statistics.confidence_intervals import interval
from regard.claims.statistics.rows import difference, figure, figures, over_seeds, values, where
from regard.claims.tasks.fit import Evaluation, fit, match_parameters, parameter_count
from regard.connectx import Boards, Solver
from regard.models import BoardConfig, BoardNet, attention_pattern
from regard.watching import watch

WITHOUT, MATCHED = "no attention", "no attention, equal parameters"
DIRECTIONS = ("row", "column", "rising", "falling")
STRONG = 1.5  # a head follows a direction if its weight there is 1.5 times that of permuted maps
DEFINITION = Definition("connectx-attention")
text = DEFINITION.text


@lru_cache(maxsize=2)
def solved_positions(count: int, fewest: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return solved positions: planes (N, 2, 6, 7), legal columns, columns that keep the result, results (−1, 0, 1)."""
    solver = Solver(table_bits=20)
    planes: list[Tensor] = []
    legal, keeping, result = [], [], []
    rng = np.random.default_rng(seed)
    while len(planes) < count:
        boards = Boards(512, seed=int(rng.integers(2**31)))
        for _ in range(int(rng.integers(fewest, fewest + 8))):
            boards.step(boards.random_columns())
        batch_planes, batch_legal = boards.planes(), boards.legal()
        for at in np.flatnonzero(boards.status == 0):
            scores = solver.move_scores(int(boards.position[at]), int(boards.mask[at]))
            signs = [None if score is None else int(np.sign(score)) for score in scores]
            best = max(sign for sign in signs if sign is not None)
            keeps = [sign == best for sign in signs]
            if sum(keeps) < int(batch_legal[at].sum()) and len(planes) < count:
                planes.append(torch.from_numpy(batch_planes[at].copy()))
                legal.append(torch.from_numpy(batch_legal[at].copy()))
                keeping.append(torch.tensor(keeps))
                result.append(float(best))
    return torch.stack(planes), torch.stack(legal), torch.stack(keeping), torch.tensor(result)


def variants(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return, by name of the variant, its changes to the main network (6 heads, attention after every second block)."""
    changes: dict[str, dict[str, Any]] = {WITHOUT: {"attn_every": None}, MATCHED: {"attn_every": None}}
    for heads in settings["heads"]:
        changes[f"{heads} head{'s' if heads > 1 else ''}"] = {"heads": heads}
    for every in settings["every"]:
        changes[f"attention every {every}"] = {"attn_every": every}
    return changes


def make_network(settings: Settings, variant: str) -> BoardNet:
    """Return an untrained network; the variant MATCHED replaces attention by channels with as many parameters."""
    config: dict[str, Any] = {
        "channels": settings["channels"], "heads": settings["main"], "layers": settings["layers"],
        "attn_every": 2, "head_channels": 16, "value_hidden": 32,
    }  # fmt: skip
    if variant == MATCHED:
        network = match_parameters(
            lambda channels: BoardNet(BoardConfig(**{**config, "channels": channels, "heads": 1, "attn_every": None})),
            parameter_count(BoardNet(BoardConfig(**config))),
            range(8, 2 * settings["channels"]),
        )
        assert isinstance(network, BoardNet)
        return network
    changes = variants(settings)[variant]
    if changes.get("attn_every", 2) is None:
        config["heads"] = 1
    return BoardNet(BoardConfig(**{**config, **changes}))


def share_keeping(net: nn.Module, planes: Tensor, legal: Tensor, keeping: Tensor) -> float:
    """Return the share of positions in which the network's most probable move keeps the result of perfect play."""
    choice = net(planes, legal).policy.argmax(-1, keepdim=True)
    return float(keeping.gather(1, choice).float().mean())


_TRAINED: dict[tuple[str, int, str], tuple[BoardNet, list[Evaluation]]] = {}  # the current seed's networks


def train_network(settings: Settings, variant: str, seed: int) -> tuple[BoardNet, list[Evaluation]]:
    """Return the trained network and its evaluations, from memory if it was already trained with this seed."""
    key = (repr(sorted(settings.items())), seed, variant)
    if key in _TRAINED:
        return _TRAINED[key]
    planes, legal, keeping, result = solved_positions(settings["positions"], settings["fewest"], 2 * seed)
    test = solved_positions(settings["test"], settings["fewest"], 2 * seed + 1)
    torch.manual_seed(seed)
    net = make_network(settings, variant)

    def loss() -> Tensor:
        indices = torch.randint(len(planes), (settings["batch"],))
        batch = planes[indices], legal[indices], keeping[indices]
        mirror = torch.rand(len(indices)) < 0.5
        x, may, good = (torch.where(mirror.view(-1, *[1] * (t.dim() - 1)), t.flip(-1), t) for t in batch)
        output = net(x, may)
        log_keeping = (output.policy.log_softmax(-1).masked_fill(~good, 0) / good.sum(-1, keepdim=True)).sum(-1)
        return F.mse_loss(output.value[:, 0], result[indices]) - log_keeping.mean()

    evaluations = fit(
        net, loss, settings["steps"], evaluations=settings["marks"], learning_rate=settings["rate"],
        score=lambda: share_keeping(net, *test[:3]),
    )  # fmt: skip
    for old in [old for old in _TRAINED if old[1] != seed]:
        del _TRAINED[old]
    _TRAINED[key] = net.eval(), evaluations
    return _TRAINED[key]


def parts(settings: Settings) -> list[Settings]:
    trained: list[Settings] = [{"what": "trained", "variant": variant} for variant in variants(settings)]
    return [*trained, {"what": "arena"}, {"what": "lines", "net": "trained"}, {"what": "lines", "net": "untrained"}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    main = f"{settings['main']} heads"
    if part["what"] == "trained":
        net, evaluations = train_network(settings, part["variant"], seed)
        count = parameter_count(net)
        return [
            {"step": one.step, "seconds": one.seconds, "accuracy": one.score, "end": one is evaluations[-1],
             "parameters": count, "main": part["variant"] == main}
            for one in evaluations
        ]  # fmt: skip
    if part["what"] == "arena":
        opponents = {other: train_network(settings, other, seed)[0] for other in (WITHOUT, MATCHED)}
        net = train_network(settings, main, seed)[0]
        return [{"against": name, "score": play_games(settings, net, other, seed)} for name, other in opponents.items()]
    trained = part["net"] == "trained"
    net = train_network(settings, main, seed)[0] if trained else make_network(settings, main).eval()
    planes = solved_positions(settings["test"], settings["fewest"], 2 * seed + 1)[0][: settings["looked"]]
    with torch.no_grad(), watch(net) as seen:
        net(planes)
    return weight_along_lines(torch.cat([call.weights().mean(0) for call in seen.calls]), settings["permutations"])


def play_games(settings: Settings, first: BoardNet, second: BoardNet, seed: int) -> float:
    """Return the first network's mean points (win 1, draw ½) in greedy play from both sides of random openings."""
    points = []
    for opening in (first, second):
        boards = Boards(settings["games"], seed=seed)
        for _ in range(8):
            boards.step(boards.random_columns())
        started = boards.status == 0
        turn = opening
        while (boards.status == 0).any():
            with torch.no_grad():
                legal = torch.from_numpy(boards.legal())
                policy = turn(torch.from_numpy(boards.planes())).policy.masked_fill(~legal, -1e9)
            before = boards.status.copy()
            status = boards.step(policy.argmax(-1).numpy())
            for at in np.flatnonzero((before == 0) & (status != 0) & started):
                points.append(0.5 if status[at] == 2 else float(turn is first))
            turn = second if turn is first else first
    return float(np.mean(points))


def weight_along_lines(maps: Tensor, permutations: int) -> list[Row]:
    """Return each head's weight along each direction, with a permutation test; `maps` are (heads, 42, 42).

    Near squares get more weight and are more often on a line. So weights are permuted only among squares at the same
    distance from the query (in king's moves), which tests the direction alone. A query's own square is left out.
    """
    other_squares = 1 - torch.eye(42)
    maps = maps * other_squares
    maps = maps / maps.sum(-1, keepdim=True).clamp_min(1e-12)
    on_line = torch.stack([attention_pattern(direction, 6, 7) for direction in DIRECTIONS]).float() * other_squares
    weight = torch.einsum("hqk,dqk->hd", maps, on_line) / 42
    square = torch.arange(42)
    king = torch.maximum((square[:, None] // 7 - square // 7).abs(), (square[:, None] % 7 - square % 7).abs()).float()
    by_distance = king.argsort(dim=-1, stable=True)
    as_much, total = torch.zeros_like(weight), torch.zeros_like(weight)
    for _ in range(permutations):
        shuffled = (king + 0.5 * torch.rand(42, 42)).argsort(-1)  # random order within each distance
        permutation = torch.empty(42, 42, dtype=torch.long).scatter_(-1, by_distance, shuffled)
        null = torch.einsum("hqk,dqk->hd", maps, on_line.gather(-1, permutation.expand(4, -1, -1))) / 42
        as_much, total = as_much + (null >= weight - 1e-6), total + null
    mean, p = total / permutations, (1 + as_much) / (1 + permutations)
    return [
        {"head": head, "direction": direction, "mass": float(weight[head, at]), "p": float(p[head, at]),
         "ratio": float(weight[head, at] / mean[head, at])}
        for head in range(len(maps))
        for at, direction in enumerate(DIRECTIONS)
    ]  # fmt: skip


def heads_along_lines(rows: list[Row], net: str) -> tuple[list[float], set[str]]:
    """Return the share of heads that follow a direction, for each seed, and the directions that are followed."""
    shares, directions = [], set()
    for seed in values(rows, "seed"):
        own = where(rows, what="lines", net=net, seed=seed)
        follows = [row for row in own if row["p"] < 0.05 / len(own) and row["ratio"] >= STRONG]
        shares.append(len(values(follows, "head")) / len(values(own, "head")))
        directions |= set(values(follows, "direction"))
    return shares, directions


def accuracy_at_equal_time(rows: list[Row], variant: str) -> dict[int, float]:
    """Return, for each seed, the accuracy of a variant at the time when the fastest variant was done."""
    accuracy = {}
    for seed in values(rows, "seed"):
        own = where(rows, what="trained", seed=seed)
        limit = min(row["seconds"] for row in own if row["end"])
        run = where(own, variant=variant)
        accuracy[seed] = ([row for row in run if row["seconds"] <= limit] or run[:1])[-1]["accuracy"]
    return accuracy


def judge(rows: list[Row]) -> Conclusion:
    ends, arena = where(rows, what="trained", end=True), where(rows, what="arena")
    names = values(ends, "variant")
    by_heads = sorted((name for name in names if name[0].isdigit()), key=lambda name: int(name.split()[0]))
    main = str(values(where(ends, main=True), "variant")[0])
    gain = difference(ends, "accuracy", {"variant": main}, {"variant": MATCHED})
    with_attention, without = (accuracy_at_equal_time(rows, variant) for variant in (main, WITHOUT))
    gain_in_time = interval([with_attention[seed] - without[seed] for seed in with_attention])
    more_heads = difference(ends, "accuracy", {"variant": by_heads[-1]}, {"variant": by_heads[0]})
    shares, directions = heads_along_lines(rows, "trained")
    following, untrained = interval(shares), interval(heads_along_lines(rows, "untrained")[0])
    shown = (
        *figures(ends, "accuracy", text("figures.accuracy"), "%", variant=names),
        figure(text("figures.gain_updates", main=label(main)), gain, "%"),
        figure(text("figures.gain_time", main=label(main)), gain_in_time, "%"),
        *figures(arena, "score", text("figures.arena", main=label(main), against="{against}"), "%",
                 against=(WITHOUT, MATCHED)),
        figure(text("figures.following", net=label("trained")), following, "%"),
        figure(text("figures.following", net=label("untrained")), untrained, "%"),
    )  # fmt: skip
    all_kinds = {"row", "column"} <= directions and bool({"rising", "falling"} & directions)
    statements = {
        "equal_parameters": gain.above,
        "equal_time": gain_in_time.above,
        "arena": over_seeds(arena, "score", against=MATCHED).low > 0.5,
        "more_heads": more_heads.above,
        "lines": following.mean >= 0.5 and all_kinds,
    }
    heads = {"most": label(by_heads[-1]), "fewest": label(by_heads[0])}
    confirmed, refuted = (
        enumerate_in_words([text(f"statements.{key}", **heads) for key, value in statements.items() if value is truth],
                           "; ", "；")
        for truth in (True, False)
    )  # fmt: skip
    verdict: Verdict = "holds when" if any(statements.values()) else "does not hold here"
    if all(statements.values()):
        verdict = "holds"
    return Conclusion(verdict, text("sentences.found", confirmed=confirmed, refuted=refuted), shown)


def draw(rows: list[Row]) -> Chart:
    ends, arena = where(rows, what="trained", end=True), where(rows, what="arena")
    opponents = {WITHOUT: label("same blocks"), MATCHED: label("equal parameters")}
    return Chart(text("chart.title"), (
        bars(ends, "variant", "accuracy", title=text("chart.accuracy"), percent=True, horizontal=True),
        bars(arena, "against", "score", title=text("chart.arena"), percent=True, categories=opponents,
             reference_lines=(ReferenceLine(0.5, text("chart.even")),)),
        bars(where(rows, what="lines"), "direction", "ratio", "net", title=text("chart.lines"),
             reference_lines=(ReferenceLine(1, text("chart.permuted")),)),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
