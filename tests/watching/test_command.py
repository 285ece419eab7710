"""The `regard watch` command: models, inputs, saved files, and errors of one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.cli import main

MODELS = """
import torch, regard
from torch import nn

def layer():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(16, 2, batch_first=True)

def causal():
    return regard.nn.MultiHeadAttention(16, 2, causal=True)

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attend = nn.Embedding(256, 16), regard.nn.MultiHeadAttention(16, 2)
    def forward(self, ids):
        return self.attend(self.embed(ids))

def with_tokenizer():
    return Reader(), lambda text: list(text.encode())

def linear():
    return nn.Linear(16, 16)

def broken():
    raise RuntimeError("no weights here")

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attention, self.cross_attention = causal(), causal()
    def forward(self, x):
        return self.cross_attention(self.self_attention(x))

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({"transformer_layers": nn.ModuleList(Layer() for _ in range(12))})
    def forward(self, x):
        open("ran", "w").close()
        for layer in self.encoder["transformer_layers"]:
            x = layer(x)
        return x

def deep():
    return Deep()

class PartlySeen(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = regard.nn.MultiHeadAttention(16, 2)
        self.pooling_attention = torch.jit.script(PoolingAttention())
    def forward(self, x):
        return self.attend(x) + self.pooling_attention(x)

class PoolingAttention(nn.Module):
    def forward(self, x):
        return torch.softmax(x @ x.transpose(1, 2), -1) @ x

def partly_seen():
    return PartlySeen()

class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = regard.nn.MultiHeadAttention(16, 2)
    def forward(self, x, attention_mask):
        return self.attend(x)

def padded():
    return Padded()

number = 3
"""


@pytest.fixture(autouse=True)
def _models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_models.py").write_text(MODELS)
    np.savez(tmp_path / "x.npz", src=np.random.default_rng(0).normal(size=(2, 5, 16)))
    np.savez(tmp_path / "one.npz", np.random.default_rng(0).normal(size=(2, 5, 16)))
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04 no archive")
    np.savez(tmp_path / "words.npz", src=np.array(["a"]))
    x = np.random.default_rng(0).normal(size=(2, 5, 16))
    np.savez(tmp_path / "masked.npz", x=x, attention_mask=np.array([[1] * 5, [1, 1, 1, 0, 0]]))
    monkeypatch.chdir(tmp_path)


def test_importable_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "my_models:layer", "--input", "x.npz", "--save", "x.html", "--json", "x.json"]) == 0
    output = capsys.readouterr().out
    assert "TransformerEncoderLayer: 1 attention call of 2 heads, 5 queries × 5 keys" in output
    assert "self_attn" in output
    assert "The doctor found nothing wrong" in output
    assert "TransformerEncoderLayer" in Path("x.html").read_text()
    assert [row["head"] for row in json.loads(Path("x.json").read_text())] == [0, 1]


def test_unnamed_arrays_become_positional_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "my_models:causal", "--input", "one.npz", "--json", "-"]) == 0
    first, _ = json.loads(capsys.readouterr().out)
    assert first["next"] == 0.0
    assert first["previous"] > 0.0


def test_tokenizer_encodes_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "my_models:with_tokenizer", "cat", "--head", "0:1", "--causal"]) == 0
    output = capsys.readouterr().out
    assert "attend, head 1" in output
    assert " 116 " in output  # the byte of t, in the head's own table
    assert "! sees the future: attend, head" in output


def test_run_is_watched_while_it_translates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "phrases", "The cat sat on the mat", "--head", "5:0", "--save", "x.html"]) == 0
    output = capsys.readouterr().out
    assert "6 attention calls" in output
    assert "decoder.layers.1.cross, head 0" in output
    assert "垫子" in output
    page = Path("x.html").read_text()
    assert all(f'"{word}"' in page for word in ("<begin>".replace("<", "\\u003c"), "垫子", "mat"))


def test_language_model_is_causal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "language", "The for statement is used", "--causal", "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["next"] for row in rows} == {0.0}


def test_trained_model_has_a_head_for_the_previous_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "minilm", "The cat sat on the mat", "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 6 * 12
    best = max(rows, key=lambda row: row["previous"])
    assert (best["call"], best["head"]) == ("encoder.layer.0.attention.self", 2)
    assert best["previous"] > 0.85


def test_long_paths_are_complete_at_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["watch", "my_models:deep", "--input", "one.npz"]) == 0
    output = capsys.readouterr().out
    assert "…" not in output
    assert max(map(len, output.splitlines())) <= 80
    table = output[output.index("head entropy") : output.index(", batch item 0")]
    names = "".join(line[:20].strip() for line in table.splitlines())
    assert "module: encoder.transformer_layers.*" in output
    assert all(f"{i}.self_attention{i}.cross_attention" in names for i in range(12))


def test_what_was_not_seen_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "my_models:partly_seen", "--input", "one.npz"]) == 0
    assert "Not seen: pooling_attention: " in capsys.readouterr().out
    assert main(["watch", "my_models:partly_seen", "--input", "one.npz", "--json", "-"]) == 0
    output = capsys.readouterr()
    assert len(json.loads(output.out)) == 2
    assert output.err.startswith("Not seen: pooling_attention: ")


def test_padding_is_read_from_the_attention_mask(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "my_models:padded", "--input", "masked.npz", "--batch", "1", "--save", "x.html"]) == 0
    output = capsys.readouterr().out
    assert "! attends to padding: attend, head" in output
    assert "checked: numbers, empty rows, padding" in output
    assert "head 0, batch item 1" in output or "head 1, batch item 1" in output
    assert "attends to padding" in Path("x.html").read_text()


def test_two_texts_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "phrases", "The cat slept", "--compare", "The dog sat on the mat", "--save", "x.html"]) == 0
    output = capsys.readouterr().out
    assert "Changes from the first text to the second" in output
    assert "decoder.layers.1.cross" in output
    page = Path("x.html").read_text()
    assert '"cat"' in page
    assert '"dog"' in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--head", "5"], "--head must be CALL:HEAD, two numbers from 0 such as 3:5, got '5'"),
        (["--head", "2:0", "--max-calls", "2"], "--head: calls are numbered from 0 to 1 (--max-calls), got 2"),
        (["--save", "x.bmp"], "saved as .png, .svg, .pdf or .html, got 'x.bmp'"),
        (["--save", "nowhere/x.html"], "--save: there is no folder 'nowhere'"),
        (["--json", "nowhere/x.json"], "--json: there is no folder 'nowhere'"),
        (["--only", "decoder.*"], "--only 'decoder.*' matches no module; the model has modules such as encoder.trans"),
        (["--only", "encoder", "--only", "x"], "--only 'x' matches no module"),
        (["--compare", "text"], "--compare needs a first TEXT, got --input"),
    ],
)
def test_wrong_options_are_reported_before_the_model_runs(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "my_models:deep", "--input", "one.npz", *options]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1
    assert not Path("ran").exists()


@pytest.mark.parametrize("options", [["--max-calls", "0"], ["--batch", "-1"]])
def test_numbers_out_of_range(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "my_models:deep", "--input", "one.npz", *options]) == 2
    assert options[0] in capsys.readouterr().err
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["my_models:layer"], "TEXT or --input FILE.npz, got neither"),
        (["my_models:layer", "text", "--input", "x.npz"], "TEXT or --input FILE.npz, got both"),
        (["my_models:", "text"], "expected MODULE:FACTORY, such as my_models:build, or a demo (minilm); got 'my_mod"),
        (["my_models", "text"], "no run 'my_models'"),
        (["my_models", "text"], "MODEL may also be MODULE:FACTORY, or the demo minilm"),
        (["phrases", " "], "the text must contain at least one word"),
        (["phrases", "--input", "x.npz"], "encodes TEXT with its own tokenizer"),
        (["not_there:x", "text"], "cannot import 'not_there'"),
        (["my_models:nothing", "text"], "my_models has no 'nothing'; it has torch, regard, nn, layer"),
        (["my_models:number", "text"], "must return an nn.Module, or a pair (model, tokenizer), got int"),
        (["my_models:broken", "text"], "my_models:broken failed: RuntimeError: no weights here"),
        (["my_models:layer", "text"], "my_models:layer returns no tokenizer"),
        (["my_models:with_tokenizer", "  "], "the text must contain at least one word"),
        (["my_models:layer", "--input", "x.csv"], "--input must be an .npz file"),
        (["my_models:layer", "--input", "none.npz"], "No such file"),
        (["my_models:layer", "--input", "damaged.npz"], "damaged.npz is not an .npz file, or is damaged"),
        (["my_models:layer", "--input", "words.npz"], "src must contain numbers, got <U1"),
        (["my_models:causal", "--input", "x.npz"], "the model failed on this input: TypeError"),
        (["my_models:linear", "--input", "one.npz"], "no attention call was recorded"),
        (["my_models:layer", "--input", "x.npz", "--batch", "2"], "--batch: items are numbered from 0 to 1, got 2"),
        (["my_models:layer", "--input", "x.npz", "--save", "."], "saved as .png, .svg, .pdf or .html"),
        (["my_models:layer", "--input", "x.npz", "--head", "0:2"], "call 0 has 2 heads, counted from 0, got 2"),
        (["my_models:layer", "--input", "x.npz", "--head", "1:0"], "calls are numbered from 0 to 0, got 1"),
    ],
)
def test_user_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", *arguments]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.startswith("regard watch: ")
    assert output.count("\n") == 1
