"""The board network compared with a plain implementation of it: `python bench/board.py`.

`PlainNet` is a usual implementation: contiguous tensors, nn.BatchNorm2d after every convolution, attention by matmul
and softmax. It has the same weights, and its outputs are checked before anything is timed. 6×7 boards, float32, one
thread; ours / plain in milliseconds per batch, and both in positions per second. The first rows measure one
convolution: torch with channels first, torch with channels last, and Winograd's algorithm.
"""

import torch
import torch.nn.functional as F
from side_by_side import Row, one_thread, race, report, steps
from torch import Tensor, nn

from regard.models import BoardNet, Evaluator
from regard.models.board.convolution import BoardConv

BATCH = 256


class PlainBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(y)))


class PlainAttention(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads, self.d_k = heads, channels // heads
        self.bn = nn.BatchNorm2d(channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.bn(x)).reshape(b, 3, self.heads, self.d_k, h * w).unbind(1)
        weights = (q.transpose(-2, -1) @ k * self.d_k**-0.5).softmax(-1)  # (B, heads, H·W, H·W)
        return x + self.out((v @ weights.transpose(-2, -1)).reshape(b, c, h, w))


class PlainNet(nn.Module):
    def __init__(self, net: BoardNet) -> None:
        super().__init__()
        config = net.config
        self.every = config.attn_every
        self.stem = nn.Conv2d(config.planes, config.channels, 3, padding=1, bias=False)
        self.stem_bn = nn.BatchNorm2d(config.channels)
        self.blocks = nn.ModuleList(PlainBlock(config.channels) for _ in range(config.layers))
        self.attention = nn.ModuleList(PlainAttention(config.channels, config.heads) for _ in range(config.attentions))
        self.reduce = nn.ModuleList(nn.Conv2d(config.channels, config.head_channels, 1, bias=False) for _ in range(2))
        self.reduce_bn = nn.ModuleList(nn.BatchNorm2d(config.head_channels) for _ in range(2))
        self.hidden = nn.ModuleList(nn.Linear(n * config.head_channels, config.value_hidden) for n in (4, 2))
        self.answer = nn.ModuleList(nn.Linear(config.value_hidden, 1) for _ in range(2))

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.stem_bn(self.stem(planes)))
        for number, block in enumerate(self.blocks, 1):
            x = block(x)
            if number % self.every == 0:
                x = self.attention[number // self.every - 1](x)
        return self.head(x, 0)[..., 0], self.head(x, 1).tanh()

    def head(self, x: Tensor, which: int) -> Tensor:
        y = F.relu(self.reduce_bn[which](self.reduce[which](x)))
        pooled = torch.cat((y.mean((2, 3)), y.amax((2, 3))), 1)
        if which == 0:  # the policy: each column, and the whole board
            whole = pooled[:, :, None].expand(-1, -1, x.shape[3])
            pooled = torch.cat((y.mean(2), y.amax(2), whole), 1).movedim(1, -1)
        return self.answer[which](F.relu(self.hidden[which](pooled)))


def plain(net: BoardNet) -> PlainNet:
    """Return the plain network with the same weights."""
    other = PlainNet(net)
    pairs = [(net.stem.conv, other.stem), (net.stem.norm, other.stem_bn)]
    for ours, theirs in zip(net.blocks, other.blocks, strict=True):
        pairs += [(ours.first.conv, theirs.conv1), (ours.first.norm, theirs.bn1)]
        pairs += [(ours.second.conv, theirs.conv2), (ours.second.norm, theirs.bn2)]
    for ours, theirs in zip(net.attention, other.attention, strict=True):
        pairs += [(ours.norm, theirs.bn), (ours.squares.qkv, theirs.qkv), (ours.squares.out, theirs.out)]
    for i, ours in enumerate((net.policy, net.value)):
        pairs += [(ours.reduce, other.reduce[i]), (ours.norm, other.reduce_bn[i])]
        pairs += [(ours.hidden, other.hidden[i]), (ours.answer, other.answer[i])]
    with torch.no_grad():
        for ours, theirs in pairs:
            theirs.weight.copy_(ours.weight)
            if theirs.bias is not None:
                theirs.bias.copy_(ours.bias)
            if isinstance(theirs, nn.BatchNorm2d):
                theirs.running_mean.copy_(ours.mean)
                theirs.running_var.copy_(ours.variance)
    return other.train(net.training)


def boards(count: int) -> Tensor:
    """Return boards with random stones."""
    stone = torch.randint(0, 3, (count, 6, 7))
    return torch.stack((stone == 1, stone == 2), 1).float()


def settled(preset: str) -> BoardNet:
    """Return a network whose norms have statistics of boards, so that folding them changes the weights."""
    net = BoardNet(preset)
    with torch.no_grad():
        for _ in range(3):
            net(boards(64))
    return net.eval()


def convolution(channels: int) -> list[Row]:
    """Time one 3×3 convolution of torch, with channels first and last, and with Winograd's algorithm."""
    conv, x = BoardConv(channels, channels), torch.randn(BATCH, channels, 6, 7).relu()
    weight, bias = conv.weight.detach(), conv.bias.detach()
    last, last_weight = (t.to(memory_format=torch.channels_last) for t in (x, weight))
    conv.cache_filters()
    with torch.inference_mode():
        ms = race(
            {
                "first": lambda: F.conv2d(x, weight, bias, padding=1),
                "last": lambda: F.conv2d(last, last_weight, bias, padding=1),
                "winograd": lambda: conv(last),
            }
        )
    at = f"{channels} channels"
    return [
        Row("convolution: channels last / channels first", at, ms["last"], ms["first"], "ms"),
        Row("convolution: Winograd / channels first", at, ms["winograd"], ms["first"], "ms"),
        Row("convolution: Winograd / channels last", at, ms["winograd"], ms["last"], "ms"),
    ]


def inference(preset: str, bound: float | None = None) -> list[Row]:
    net, planes = settled(preset), boards(BATCH)
    theirs, evaluator = plain(net), Evaluator(net)
    array = planes.numpy()
    with torch.inference_mode():
        expected, result = theirs(planes), evaluator(array)
        for a, b in zip((expected[0].softmax(-1), expected[1][:, 0]), result[:2], strict=True):
            torch.testing.assert_close(torch.from_numpy(b), a, rtol=1e-4, atol=1e-5)
        ms = race({"ours": lambda: evaluator(array), "plain": lambda: theirs(planes)}, rounds=7)
    return [_row(f"{preset}: inference", ms, bound)]


def training(preset: str) -> list[Row]:
    net, planes = BoardNet(preset), boards(BATCH)
    theirs = plain(net)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        policy, value = model(planes)[:2]
        loss = F.cross_entropy(policy, target) + (value[:, 0] - result).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    target, result = torch.randint(0, 7, (BATCH,)), torch.rand(BATCH)
    first, second = (torch.optim.AdamW(model.parameters(), fused=True) for model in (net, theirs))
    ms = race({"ours": lambda: step(net, first), "plain": lambda: step(theirs, second)}, rounds=5)
    return [_row(f"{preset}: training", ms)]


def _row(what: str, ms: dict[str, float], bound: float | None = None) -> Row:
    rate = f"{1000 * BATCH / ms['ours']:,.0f} / {1000 * BATCH / ms['plain']:,.0f} positions/s"
    return Row(f"{what} / plain", rate, ms["ours"], ms["plain"], "ms", bound)


if __name__ == "__main__":
    one_thread()
    torch.manual_seed(0)
    todo = [
        *(lambda channels=channels: convolution(channels) for channels in (144, 96, 64)),
        lambda: inference("light", 1 / 1.6),
        *(lambda preset=preset: inference(preset) for preset in ("small", "tiny")),
        *(lambda preset=preset: training(preset) for preset in ("light", "small", "tiny")),
    ]
    report("board", f"The board network, batches of {BATCH}", steps(todo))
