"""Find the output projection of an attention module: the matrix W_o that is applied to the outputs of all heads."""

from typing import Any

from torch import Tensor, nn

INPUT_NAMES = {
    "q", "k", "v", "qkv", "kv", "query", "key", "value", "query_key_value", "q_proj", "k_proj", "v_proj", "qkv_proj",
    "in_proj", "c_attn", "q_attn", "to_q", "to_k", "to_v", "to_kv", "to_qkv", "wq", "wk", "wv", "w_q", "w_k", "w_v",
    "Wqkv", "W_pack", "q_lin", "k_lin", "v_lin", "query_proj", "key_proj", "value_proj", "linear_q", "linear_k",
    "linear_v", "q_linear", "k_linear", "v_linear", "gate_proj", "up_proj", "to_gate",
}  # fmt: skip


def find_output_projection(call: Any, rows: int) -> Tensor:
    """Return the matrix (rows, d_model) that the module of a call, or the module around it, applies to its outputs."""
    path, model = call.name, call.model
    while model is not None:
        matrices = _matrices(model.get_submodule(path), rows)
        if len(matrices) == 1:
            return matrices[0]
        if matrices or not path:
            break
        path = path.rpartition(".")[0]
    raise ValueError(
        f"the output projection of call {call.name!r}, a matrix with {rows} rows (H · d_v), was not found; "
        "pass contributions(output_projection=linear.weight.T)"
    )


def _matrices(module: nn.Module, rows: int) -> list[Tensor]:
    """Return the matrices of a module that fit: of linear layers not named as those of q, k and v."""
    found = []
    for name, layer in module.named_modules():
        weight = getattr(layer, "weight", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2 or name.rpartition(".")[2] in INPUT_NAMES:
            continue
        is_linear = isinstance(layer, nn.Linear)
        if is_linear and weight.shape[1] == rows:
            found.append(weight.detach().T)
        elif not is_linear and type(layer).__name__ == "Conv1D" and weight.shape[0] == rows:  # GPT-2: (in, out)
            found.append(weight.detach())
    return found
