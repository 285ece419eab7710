"""A board network as an ONNX graph, which onnxruntime computes faster than torch for a few positions.

onnxruntime prepares the filters of the convolutions once and has little overhead for each operation; for many
positions Winograd's algorithm (winograd.py) is faster. The graph begins after the input planes (input_planes.py), which
numba computes faster, and ends with the probabilities of the columns. What the opening table adds to the value is an
input, because ONNX cannot express the set of taught positions.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.extras import installed
from regard.models.board.attention_block import BoardAttention
from regard.models.board.input_planes import compute_planes
from regard.models.board.network import BoardNet, OutputHead, Unit

Floats = NDArray[np.float32]

MAX_BOARDS = 32  # with more boards torch is as fast, because of Winograd's algorithm


class SmallBatches:
    """A `BoardNet.for_inference()` that onnxruntime computes for at most `MAX_BOARDS` boards.

    Results differ from the network's by rounding only. Each board size has a graph, which is made from the network's
    weights at the first call (0.2 s), so it cannot be outdated.

    >>> net = BoardNet("tiny").for_inference()
    >>> policy, value, _ = SmallBatches(net)(np.zeros((3, 2, 6, 7), np.float32), np.ones((3, 7), np.bool_))
    >>> np.allclose(policy, net(torch.zeros(3, 2, 6, 7)).policy.softmax(-1), atol=1e-5), value.shape
    (True, (3,))
    """

    def __init__(self, net: BoardNet) -> None:
        self.net = net
        self._graphs: dict[tuple[int, ...], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_graphs": {}}  # a session of onnxruntime cannot be copied

    def __call__(self, planes: Floats, legal: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats | None]:
        """Return probabilities of the columns (0 for illegal ones), values and scores of planes (B, P, rows, columns)
        and legal columns (B, columns)."""
        net, size = self.net, planes.shape[2:]
        if size not in self._graphs:
            self._graphs[size] = _session(onnx_graph(net, *size))
        inputs: dict[str, Any] = {"legal": legal}
        inputs["planes"] = planes
        if net.config.lines is not None:
            inputs["planes"] = compute_planes(planes, net.config.lines, _added_planes(net))
        if net.opening_table is not None:
            inputs["opening"] = net.opening_table.amounts(planes)
        policy, value, *score = self._graphs[size].run(None, inputs)
        return policy, value[:, 0], score[0] if score else None


def small_batches(net: BoardNet) -> SmallBatches | None:
    """Return the network computed by onnxruntime, if the packages of the extra onnx are installed.

    Networks with attention masks, line biases or group norms are not supported: for them it returns None.
    """
    return SmallBatches(net) if _in_onnx(net) and all(map(installed, ("numba", "onnx", "onnxruntime"))) else None


def _in_onnx(net: BoardNet) -> bool:
    """Return whether `onnx_graph` has everything this network has, on the CPU and in float32."""
    weight = next(net.parameters())
    layers: list[Any] = list(net.attention)
    return (
        type(net) is BoardNet
        and net.config.norm == "none"
        and weight.is_cpu
        and weight.dtype == torch.float32
        and all(set(layer.sees) == {"all"} and layer.bias is None and not layer.previous for layer in layers)
    )


def _session(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnx_graph(net: BoardNet, rows: int, columns: int) -> Any:
    """Return the network as an onnx.ModelProto for boards of this size and any number of positions."""
    graph = _Graph()
    x = _unit(graph, net.stem, "planes", added=_added_planes(net))
    for number, block in enumerate(net.blocks, 1):
        parts: Any = block
        x = _unit(graph, parts.second, _unit(graph, parts.first, x), residual=x)
        if net.config.attn_every and number % net.config.attn_every == 0:
            layer: Any = net.attention[number // net.config.attn_every - 1]
            x = _attention(graph, layer, x, rows, columns)
    by_column, whole = _hidden(graph, net.policy, x), _hidden(graph, net.value, x)
    logits = graph.add("Where", "legal", _answer(graph, net.policy, by_column, 0), graph.weight(np.float32(-np.inf)))
    graph.add("Where", "legal", graph.add("Softmax", logits), graph.weight(np.float32(0)), output="policy")
    value = _answer(graph, net.value, whole, 0)
    value = value if net.opening_table is None else graph.add("Add", value, "opening")
    graph.add("Tanh", value, output="value")
    if net.config.score != "none":
        head, hidden = {"columns": (net.policy, by_column), "position": (net.value, whole)}[net.config.score]
        graph.add("Identity", _answer(graph, head, hidden, 1), output="score")
    inputs = {"planes": ["b", net.stem.conv.in_channels + _added_planes(net), rows, columns], "legal": ["b", columns]}
    if net.opening_table is not None:
        inputs["opening"] = ["b", 1]
    outputs: dict[str, list[Any]] = {"policy": ["b", columns], "value": ["b", 1], "score": ["b", None]}
    if net.config.score == "none":
        del outputs["score"]
    return graph.model(inputs, outputs)


def _added_planes(net: BoardNet) -> int:
    """Return the number of zero planes after the input planes. With a multiple of four planes, onnxruntime stores all
    results in blocks of channels and adds residuals in the convolution; otherwise it converts every result."""
    return -net.stem.conv.in_channels % 4 if net.config.lines is not None else 0


class _Graph:
    """Nodes and weights of an ONNX graph; methods add a node and return the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"x{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def weight(self, values: Any) -> str:
        from onnx import numpy_helper

        array = values.detach().contiguous().numpy() if isinstance(values, Tensor) else np.asarray(values)
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def split(self, x: str, count: int) -> list[str]:
        from onnx import helper

        outputs = [f"x{len(self.nodes)}-{part}" for part in range(count)]
        self.nodes.append(helper.make_node("Split", [x], outputs, axis=1, num_outputs=count))
        return outputs

    def convolution(self, conv: nn.Conv2d, x: str, scale: Tensor | None = None, added: int = 0) -> str:
        """Add a convolution whose outputs are multiplied by `scale`, and whose input has `added` unused channels."""
        parts = [
            part if scale is None else part * scale.view(-1, *[1] * (part.dim() - 1))
            for part in (conv.weight, conv.bias)
            if part is not None
        ]
        parts[0] = nn.functional.pad(parts[0], (0, 0, 0, 0, 0, added))
        padding = conv.kernel_size[0] // 2
        weights = map(self.weight, parts)
        return self.add("Conv", x, *weights, kernel_shape=list(conv.kernel_size), pads=[padding] * 4)

    def model(self, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> Any:
        """Return the model; `inputs` and `outputs` are names and shapes."""
        from onnx import TensorProto, helper

        values = [
            helper.make_tensor_value_info(name, TensorProto.BOOL if name == "legal" else TensorProto.FLOAT, shape)
            for name, shape in (inputs | outputs).items()
        ]
        graph = helper.make_graph(self.nodes, "board", values[: len(inputs)], values[len(inputs) :], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def _unit(graph: _Graph, unit: Unit | Any, x: str, residual: str | None = None, added: int = 0) -> str:
    y = graph.convolution(unit.conv, x, added=added)
    return graph.add("Relu", y if residual is None else graph.add("Add", y, residual))


def _attention(graph: _Graph, layer: BoardAttention, x: str, rows: int, columns: int) -> str:
    heads, channels = layer.squares.heads, layer.squares.channels
    scale = torch.ones(3 * channels)
    scale[:channels] = (channels / heads) ** -0.5  # of the queries
    projected = graph.convolution(layer.squares.qkv, x, scale)
    parts = graph.add("Reshape", projected, graph.weight([0, 3 * heads, channels // heads, -1]))
    q, k, v = graph.split(parts, 3)  # (B, heads, C/heads, squares) each
    scores = graph.add("MatMul", graph.add("Transpose", q, perm=[0, 1, 3, 2]), k)  # (B, heads, squares, squares)
    v = graph.add("Transpose", v, perm=[0, 1, 3, 2])
    out = graph.add("Transpose", graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v), perm=[0, 1, 3, 2])
    merged = graph.add("Reshape", out, graph.weight([0, channels, rows, columns]))
    return graph.add("Add", x, graph.convolution(layer.squares.out, merged))


def _hidden(graph: _Graph, head: OutputHead, x: str) -> str:
    """Add a head up to its hidden layer, (B, columns, hidden) or (B, hidden)."""
    x = graph.add("Relu", graph.convolution(head.reduce, x))
    whole = graph.add("Concat", *_pooled(graph, x, [2, 3]), axis=1)  # (B, 2·channels)
    if not head.columns:
        hidden = _linear(graph, whole, head.hidden.weight, head.hidden.bias)
    else:  # the layer's weights are those of the column, then those of the whole board
        of_column, of_whole = head.hidden.weight.chunk(2, 1)
        column = graph.add("Transpose", graph.add("Concat", *_pooled(graph, x, [2]), axis=1), perm=[0, 2, 1])
        shared = graph.add("Unsqueeze", _linear(graph, whole, of_whole, head.hidden.bias), graph.weight([1]))
        hidden = graph.add("Add", graph.add("MatMul", column, graph.weight(of_column.T)), shared)
    return graph.add("Relu", hidden)


def _answer(graph: _Graph, head: OutputHead, hidden: str, number: int) -> str:
    """Add one of the head's outputs, (B, columns) or (B, 1)."""
    weight, bias = head.answer.weight[number], head.answer.bias[number]
    product = graph.add("MatMul", hidden, graph.weight(weight if head.columns else weight[:, None]))
    return graph.add("Add", product, graph.weight(bias))


def _pooled(graph: _Graph, x: str, axes: list[int]) -> list[str]:
    return [graph.add(kind, x, graph.weight(axes), keepdims=0) for kind in ("ReduceMean", "ReduceMax")]


def _linear(graph: _Graph, x: str, weight: Tensor, bias: Tensor) -> str:
    return graph.add("Gemm", x, graph.weight(weight), graph.weight(bias), transB=1)
