"""A board network as an ONNX graph, which onnxruntime computes faster than torch for a few positions.

onnxruntime prepares the filters of the convolutions once and has little overhead for each operation; for many
positions Winograd's algorithm (winograd.py) is faster. The graph begins after the input planes (input_planes.py), which
numba computes faster, and ends before the opening table, whose set of taught positions ONNX cannot express.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.extras import installed
from regard.models.board.attention_block import BoardAttention
from regard.models.board.input_planes import compute_planes
from regard.models.board.network import BoardNet, BoardOutput, OutputHead, Unit

MAX_BOARDS = 32  # with more boards torch is as fast, because of Winograd's algorithm


class SmallBatches:
    """A `BoardNet.for_inference()` that onnxruntime computes for at most `MAX_BOARDS` boards, if the packages of the
    extra onnx are installed.

    Larger batches, and all batches where onnxruntime and onnx are missing or the network has attention masks, line
    biases or group norms, are computed by the network itself. Results differ by rounding only. Each board size has a
    graph, which is made from the network's weights at the first call (0.2 s), so it cannot be outdated.

    >>> net = BoardNet("tiny").for_inference()
    >>> planes = torch.zeros(3, 2, 6, 7)
    >>> torch.allclose(SmallBatches(net)(planes).policy, net(planes).policy, atol=1e-5)
    True
    """

    def __init__(self, net: BoardNet) -> None:
        self.net = net
        self._use_onnx = _in_onnx(net) and all(map(installed, ("numba", "onnx", "onnxruntime")))
        self._graphs: dict[tuple[int, int], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_graphs": {}}  # a session of onnxruntime cannot be copied

    def __call__(self, planes: Tensor) -> BoardOutput:
        """Return policy logits, value and score of planes (B, P, rows, columns), as the network does."""
        if not self._use_onnx or not 0 < len(planes) <= MAX_BOARDS or not planes.is_cpu:
            result: BoardOutput = self.net(planes)
            return result
        rows, columns = planes.shape[2:]
        if (rows, columns) not in self._graphs:
            self._graphs[rows, columns] = _session(onnx_graph(self.net, rows, columns))
        lines, inputs = self.net.config.lines, planes.contiguous().numpy()
        if lines is not None:
            inputs = compute_planes(inputs, lines)
        policy, value = self._graphs[rows, columns].run(None, {"planes": inputs})
        return self.net.output(torch.from_numpy(policy), torch.from_numpy(value), planes)


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
    x = _unit(graph, net.stem, "planes")
    for number, block in enumerate(net.blocks, 1):
        parts: Any = block
        x = _unit(graph, parts.second, _unit(graph, parts.first, x), residual=x)
        if net.config.attn_every and number % net.config.attn_every == 0:
            layer: Any = net.attention[number // net.config.attn_every - 1]
            x = _attention(graph, layer, x, rows, columns)
    _head(graph, net.policy, x, "policy")
    _head(graph, net.value, x, "value")
    return graph.model(net.stem.conv.in_channels, rows, columns)


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

    def convolution(self, conv: nn.Conv2d, x: str, scale: Tensor | None = None) -> str:
        parts = [
            part if scale is None else part * scale.view(-1, *[1] * (part.dim() - 1))
            for part in (conv.weight, conv.bias)
            if part is not None
        ]
        padding = conv.kernel_size[0] // 2
        weights = map(self.weight, parts)
        return self.add("Conv", x, *weights, kernel_shape=list(conv.kernel_size), pads=[padding] * 4)

    def model(self, planes: int, rows: int, columns: int) -> Any:
        from onnx import TensorProto, helper

        def value(name: str, shape: list[Any]) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        results = [value("policy", ["b", columns, None]), value("value", ["b", None])]
        graph = helper.make_graph(
            self.nodes, "board", [value("planes", ["b", planes, rows, columns])], results, self.weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def _unit(graph: _Graph, unit: Unit | Any, x: str, residual: str | None = None) -> str:
    y = graph.convolution(unit.conv, x)
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


def _head(graph: _Graph, head: OutputHead, x: str, output: str) -> None:
    x = graph.add("Relu", graph.convolution(head.reduce, x))
    whole = graph.add("Concat", *_pooled(graph, x, [2, 3]), axis=1)  # (B, 2·channels)
    if not head.columns:
        hidden = _linear(graph, whole, head.hidden.weight, head.hidden.bias)
    else:  # the layer's weights are those of the column, then those of the whole board
        of_column, of_whole = head.hidden.weight.chunk(2, 1)
        column = graph.add("Transpose", graph.add("Concat", *_pooled(graph, x, [2]), axis=1), perm=[0, 2, 1])
        shared = graph.add("Unsqueeze", _linear(graph, whole, of_whole, head.hidden.bias), graph.weight([1]))
        hidden = graph.add("Add", graph.add("MatMul", column, graph.weight(of_column.T)), shared)
    result = graph.add("MatMul", graph.add("Relu", hidden), graph.weight(head.answer.weight.T))
    graph.add("Add", result, graph.weight(head.answer.bias), output=output)


def _pooled(graph: _Graph, x: str, axes: list[int]) -> list[str]:
    return [graph.add(kind, x, graph.weight(axes), keepdims=0) for kind in ("ReduceMean", "ReduceMax")]


def _linear(graph: _Graph, x: str, weight: Tensor, bias: Tensor) -> str:
    return graph.add("Gemm", x, graph.weight(weight), graph.weight(bias), transB=1)
