"""Attention on the Connect Four board: does it improve play, do more heads help, and do heads follow lines?

Positions come from random play with few squares left, so that the solver labels thousands in seconds. Only positions
are used in which one legal move keeps the result of perfect play (win, draw or loss) and another worsens it. All
networks see the stones only: planes with lines as input would contain what attention should find. They are compared by
seed: the same positions in the same batches.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.charts.chart import Chart
from regard.claims.charts.from_rows import bars
from regard.claims.charts.labels import label
from regard.claims.charts.panels import ReferenceLine
from regard.claims.claim import Conclusion, Row, Settings
from regard.claims.definition import Definition
from regard.claims.statistics.rows import by_seed, differences, figures, per_seed, values, where
from regard.claims.statistics.statements import Reference, Statement, conclude
from regard.claims.statistics.timing import best_times
from regard.claims.tasks.fit import fit, match_parameters, parameter_count
from regard.connectx import Boards, Solver
from regard.costs.measurement import profile_call
from regard.models import BoardConfig, BoardNet, attention_pattern
from regard.watching import intervene, watch
from regard.watching.interventions.kinds import ablate

WITHOUT, MATCHED, EQUAL_TIME = "no attention", "no attention, equal parameters", "no attention, equal CPU time"
MASKED, MAIN = "line-masked heads", "6 heads"
VARIANTS: dict[str, dict[str, Any]] = {
    WITHOUT: {"attn_every": None, "heads": 1},
    MATCHED: {"attn_every": None, "heads": 1},
    EQUAL_TIME: {"attn_every": None, "heads": 1},
    MAIN: {"heads": 6},
    "1 head": {"heads": 1},
    "24 heads": {"heads": 24},
    MASKED: {"heads": 24, "sees": ("row", "column", "rising", "falling")},
}
SHAPES = {"6×7, 4": (6, 7, 4), "7×8, 5": (7, 8, 5)}  # rows, columns, stones in a row
FIRST, SECOND = SHAPES
DIRECTIONS = ("row", "column", "rising", "falling")
NONE = "none"
STRONG = 1.5  # a head follows a direction if its weight there is 1.5 times that of permuted maps
GAIN = 0.005  # smallest difference of the share of errors that counts
LEARNT = 0.85  # accuracy that the main network must reach
DEFINITION = Definition("connectx-attention")
text = DEFINITION.text


class Positions(NamedTuple):
    """Solved positions.

    planes      own stones and the opponent's (N, 2, rows, columns)
    legal       columns that can be played (N, columns)
    keeping     columns that keep the result (N, columns)
    result      result of perfect play, −1, 0 or 1 (N,)
    direction   of the line that can be completed at once, by either player, as index of `DIRECTIONS`; 4 for none
    length      number of stones in that line, 0 for none
    """

    planes: Tensor
    legal: Tensor
    keeping: Tensor
    result: Tensor
    direction: Tensor
    length: Tensor


@lru_cache(maxsize=4)
def solved_positions(board: str, count: int, stones: tuple[int, int], seed: int) -> Positions:
    """Return distinct solved positions from random play; `stones` are those on 6×7, a larger board has as many free."""
    rows, columns, inarow = SHAPES[board]
    stones = stones[0] + rows * columns - 42, stones[1] + rows * columns - 42
    solver = Solver(rows, columns, inarow, table_bits=20)
    rng = np.random.default_rng(seed)
    items: list[tuple[Any, ...]] = []
    seen: set[tuple[int, int]] = set()
    while len(items) < count:
        boards = Boards(512, rows, columns, inarow, seed=int(rng.integers(2**31)))
        for _ in range(int(rng.integers(stones[0], stones[1] + 1))):
            boards.step(boards.random_columns())
        planes, legal = boards.planes(), boards.legal()
        for at in np.flatnonzero(boards.status == 0):
            key = int(boards.position[at]), int(boards.mask[at])
            if key in seen or len(items) == count:
                continue
            seen.add(key)
            scores = solver.move_scores(*key)
            signs = [None if score is None else int(np.sign(score)) for score in scores]
            best = max(sign for sign in signs if sign is not None)
            keeps = [sign == best for sign in signs]
            if sum(keeps) < int(legal[at].sum()):
                line = open_line(planes[at], inarow)
                items.append((planes[at].copy(), legal[at].copy(), keeps, float(best), *line))
    return Positions(*(torch.from_numpy(np.array(column)) for column in zip(*items, strict=True)))


def open_line(planes: Any, inarow: int) -> tuple[int, int]:
    """Return direction and length of the longest line that one stone completes, (4, 0) if there is none.

    The first row of the planes is the top of the board.

    >>> planes = np.zeros((2, 6, 7)); planes[0, 5, 1:4] = 1
    >>> open_line(planes, 4)
    (0, 4)
    """
    rows, columns = planes.shape[1:]
    taken = planes.sum(0) > 0
    best = (4, 0)
    for column in range(columns):
        empty = np.flatnonzero(~taken[:, column])
        if not len(empty):
            continue
        row = int(empty[-1])
        for stones in planes:
            for direction, (down, right) in enumerate(((0, 1), (1, 0), (-1, 1), (1, 1))):
                length = 1
                for sign in (-1, 1):
                    r, c = row + sign * down, column + sign * right
                    while 0 <= r < rows and 0 <= c < columns and stones[r, c]:
                        length, r, c = length + 1, r + sign * down, c + sign * right
                if length >= inarow and length > best[1]:
                    best = direction, length
    return best


def make_network(settings: Settings, variant: str) -> BoardNet:
    """Return an untrained network; MATCHED replaces attention by channels with as many parameters."""
    config: dict[str, Any] = {
        "channels": settings["channels"], "layers": settings["layers"], "attn_every": 1, "head_channels": 16,
        "value_hidden": 32, **VARIANTS[variant],
    }  # fmt: skip
    if variant != MATCHED:
        return BoardNet(BoardConfig(**config))
    network = match_parameters(
        lambda channels: BoardNet(BoardConfig(**{**config, "channels": channels})),
        parameter_count(make_network(settings, MAIN)),
        range(8, 2 * settings["channels"]),
    )
    assert isinstance(network, BoardNet)
    return network


def right_moves(net: nn.Module, positions: Positions) -> Tensor:
    """Return, for each position, whether the network's most probable move keeps the result of perfect play."""
    with torch.no_grad():
        choice = net(positions.planes, positions.legal).policy.argmax(-1, keepdim=True)
    return positions.keeping.gather(1, choice)[:, 0].float()


_TRAINED: dict[tuple[str, int, str, str], BoardNet] = {}  # networks of the current seed


def train_network(settings: Settings, board: str, variant: str, seed: int) -> BoardNet:
    """Return the trained network, from memory if it was already trained with this seed."""
    key = (repr(sorted(settings.items())), seed, board, variant)
    if key in _TRAINED:
        return _TRAINED[key]
    train = _positions(settings, board, "positions")
    torch.manual_seed(seed)
    net = make_network(settings, variant)
    order = torch.Generator().manual_seed(seed)  # the batches do not depend on the network

    def loss() -> Tensor:
        indices = torch.randint(len(train.planes), (settings["batch"],), generator=order)
        mirror = torch.rand(len(indices), generator=order) < 0.5
        batch = train.planes[indices], train.legal[indices], train.keeping[indices]
        x, may, good = (torch.where(mirror.view(-1, *[1] * (t.dim() - 1)), t.flip(-1), t) for t in batch)
        output = net(x, may)
        log_keeping = (output.policy.log_softmax(-1).masked_fill(~good, 0) / good.sum(-1, keepdim=True)).sum(-1)
        return F.mse_loss(output.value[:, 0], train.result[indices].float()) - log_keeping.mean()

    steps = settings["steps"]
    if variant == EQUAL_TIME:
        times = step_times(settings, board, (MAIN, WITHOUT))
        steps = max(round(steps * times[MAIN] / times[WITHOUT]), 1)
    fit(net, loss, steps, learning_rate=settings["rate"])
    for old in [old for old in _TRAINED if old[1] != seed]:
        del _TRAINED[old]
    _TRAINED[key] = net.eval()
    return net


def _positions(settings: Settings, board: str, which: str) -> Positions:
    """Return the positions for training ("positions") or testing ("test"), the same for all seeds."""
    return solved_positions(board, settings[which], tuple(settings["stones"]), int(which == "test"))


def step_times(settings: Settings, board: str, variants: tuple[str, ...]) -> dict[str, float]:
    """Return the CPU seconds of one training step, forward and backward, of each variant."""
    x = torch.rand(settings["batch"], 2, *SHAPES[board][:2]).round()
    networks = {variant: make_network(settings, variant) for variant in variants}
    calls = {name: lambda net=net: net(x).policy.logsumexp(-1).sum().backward() for name, net in networks.items()}
    return best_times(calls, settings["repeats"])


def parts(settings: Settings) -> list[Settings]:
    trained: list[Settings] = [{"what": "trained", "board": FIRST, "variant": variant} for variant in VARIANTS]
    trained += [{"what": "trained", "board": SECOND, "variant": variant} for variant in (MATCHED, MAIN)]
    lines: list[Settings] = [{"what": "lines", "net": net} for net in ("trained", "untrained")]
    return [*trained, *lines, {"what": "ablation"}, {"what": "cost"}]


def measure(settings: Settings, part: Settings, seed: int) -> list[Row]:
    if part["what"] == "cost":
        return _measure_cost(settings)
    if part["what"] == "ablation":
        return _measure_ablation(settings, seed)
    if part["what"] == "lines":
        trained = part["net"] == "trained"
        net = train_network(settings, FIRST, MAIN, seed) if trained else make_network(settings, MAIN).eval()
        with torch.no_grad(), watch(net) as seen:
            net(_positions(settings, FIRST, "test").planes[: settings["looked"]])
        maps = torch.cat([call.weights().mean(0) for call in seen.calls])
        return weight_along_lines(maps, settings["permutations"])
    net = train_network(settings, part["board"], part["variant"], seed)
    test = _positions(settings, part["board"], "test")
    right = right_moves(net, test)
    rows: list[Row] = [{"line": "all", "accuracy": float(right.mean()), "parameters": parameter_count(net)}]
    for number, direction in enumerate((*DIRECTIONS, NONE)):
        for length in test.length[test.direction == number].unique().tolist():
            own = right[(test.direction == number) & (test.length == length)]
            rows.append({"line": direction, "length": length, "accuracy": float(own.mean()), "positions": len(own)})
    return rows


def _measure_ablation(settings: Settings, seed: int) -> list[Row]:
    """Measure how much accuracy each head adds on positions with an open line of each direction."""
    net, test = train_network(settings, FIRST, MAIN, seed), _positions(settings, FIRST, "test")
    with torch.no_grad(), watch(net) as seen:
        net(test.planes[:1])
    before = right_moves(net, test)
    rows: list[Row] = []
    for call in seen.calls:
        for head in range(VARIANTS[MAIN]["heads"]):
            with intervene(net, {call.name: ablate([head])}):
                loss = before - right_moves(net, test)
            for number, direction in enumerate(DIRECTIONS):
                own = test.direction == number
                if own.any():
                    rows.append(
                        {"head": f"{call.name}/{head}", "direction": direction, "loss": float(loss[own].mean())}
                    )
    return rows


def _measure_cost(settings: Settings) -> list[Row]:
    """Measure peak memory of inference with 6×7 squares, and CPU time of a training step."""
    times = step_times(settings, FIRST, (MAIN, WITHOUT))
    x = torch.rand(settings["batch"], 2, 6, 7).round()
    rows: list[Row] = []
    for variant, seconds in times.items():
        net = make_network(settings, variant).eval()
        with torch.no_grad():
            net(x)
            peak = profile_call(lambda net=net: net(x)).peak  # type: ignore[misc]
        rows.append({"variant": variant, "seconds": seconds, "peak": peak})
    return rows


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


def heads_along_lines(rows: list[Row], net: str) -> list[float]:
    """Return, for each seed, the share of heads that follow a direction (p < 0.05, Bonferroni within the network)."""
    shares = []
    for seed in values(where(rows, what="lines", net=net), "seed"):
        own = where(rows, what="lines", net=net, seed=seed)
        follows = [row for row in own if row["p"] < 0.05 / len(own) and row["ratio"] >= STRONG]
        shares.append(len(values(follows, "head")) / len(values(own, "head")))
    return shares


def heads_for_one_direction(rows: list[Row]) -> list[float]:
    """Return, for each seed, the share of heads without which one direction loses `GAIN` more than the others."""
    shares = []
    for seed in values(where(rows, what="ablation"), "seed"):
        own = where(rows, what="ablation", seed=seed)
        special = 0
        for head in values(own, "head"):
            losses = sorted(row["loss"] for row in where(own, head=head))
            special += losses[-1] - sum(losses[:-1]) / max(len(losses) - 1, 1) > GAIN
        shares.append(special / len(values(own, "head")))
    return shares


def gain_on_lines(rows: list[Row], board: str) -> list[float]:
    """Return, for each seed, how much more attention gains with an open line than without."""
    gains = {}
    for variant in (MAIN, MATCHED):
        own = where(rows, what="trained", board=board, variant=variant)
        lines = [row for row in own if row["line"] in DIRECTIONS]
        accuracy = {
            seed: sum(row["accuracy"] * row["positions"] for row in where(lines, seed=seed))
            / sum(row["positions"] for row in where(lines, seed=seed))
            for seed in values(lines, "seed")
        }
        without = by_seed(own, "accuracy", line=NONE)
        gains[variant] = {seed: accuracy[seed] - without[seed] for seed in accuracy.keys() & without.keys()}
    return [gains[MAIN][seed] - gains[MATCHED][seed] for seed in sorted(gains[MAIN].keys() & gains[MATCHED].keys())]


def judge(rows: list[Row]) -> Conclusion:
    ends, costs = where(rows, what="trained", line="all"), where(rows, what="cost")

    def gain(key: str, first: str, second: str, board: str = FIRST) -> Statement:
        own = where(ends, board=board)
        effect = differences(own, "accuracy", {"variant": first}, {"variant": second})
        names = {"first": label(first), "second": label(second), "board": label(board)}
        return Statement(text(f"statements.{key}", **names), effect, GAIN, "difference")

    def cost_ratio(name: str) -> list[float]:
        with_attention, without = (by_seed(costs, name, variant=variant) for variant in (MAIN, WITHOUT))
        return [with_attention[seed] / without[seed] for seed in with_attention]

    statements = [
        gain("better", MAIN, MATCHED),
        gain("better", MAIN, EQUAL_TIME),
        gain("better", MAIN, WITHOUT),
        gain("better", "24 heads", "1 head"),
        gain("better", MAIN, MATCHED, SECOND),
        *(Statement(text("statements.lines", board=label(board)), gain_on_lines(rows, board), GAIN, "difference")
          for board in SHAPES),
        Statement(text("statements.follow"), heads_along_lines(rows, "trained"), 0.5, "share"),
        Statement(text("statements.ablation"), heads_for_one_direction(rows), 0.5, "share"),
        Statement(text("statements.memory"), cost_ratio("peak"), 1.5, "ratio", below=True),
        Statement(text("statements.time"), cost_ratio("seconds"), 1.5, "ratio", below=True),
    ]  # fmt: skip
    reference = Reference(text("references.main"), per_seed(ends, "accuracy", board=FIRST, variant=MAIN), LEARNT)
    by_line = [row for row in where(rows, what="trained", board=FIRST) if row["line"] != "all"]
    lines = [line for line in (*DIRECTIONS, NONE) if where(by_line, line=line)]
    shown = (
        *figures(where(ends, board=FIRST), "accuracy", text("figures.accuracy"), "%", variant=VARIANTS),
        *figures(by_line, "accuracy", text("figures.line"), "%", variant=(MAIN, MATCHED), line=lines),
    )
    return conclude(statements, shown, references=[reference])


def draw(rows: list[Row]) -> Chart:
    ends = where(rows, what="trained", line="all", board=FIRST)
    losses = where(rows, what="ablation")
    return Chart(text("chart.title"), (
        bars(ends, "variant", "accuracy", title=text("chart.accuracy"), percent=True, horizontal=True),
        bars(losses, "direction", "loss", title=text("chart.ablation")),
        bars(where(rows, what="lines"), "direction", "ratio", "net", title=text("chart.lines"),
             reference_lines=(ReferenceLine(1, text("chart.permuted")),)),
    ))  # fmt: skip


CLAIM = DEFINITION.claim(parts, measure, judge, draw)
