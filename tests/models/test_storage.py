"""Saved models: what is loaded, and the errors for damaged files."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.models import load, save
from support.small_models import VARIANTS, decoder, encoder, recurrent, seq2seq, tokens

BUILT = {
    **{f"decoder, {name}": (lambda c=c: decoder(**c)) for name, c in VARIANTS.items()},
    "encoder": encoder,
    "encoder, untied": lambda: encoder(tied=False, embedding_norm=True),
    "seq2seq": lambda: seq2seq(encoder_layers=1, decoder_layers=3),
    "recurrent": lambda: recurrent(attention=True),
    "bfloat16": lambda: decoder().bfloat16(),
}


def run(model):
    text = tokens(2, 6)
    return model(text, text) if "source_vocabulary" in vars(model.config) else model(text)


@pytest.mark.parametrize("build", BUILT.values(), ids=BUILT)
def test_a_loaded_model_equals_the_saved_one(build, tmp_path) -> None:
    model = build()
    save(model, tmp_path / "new" / "folder")
    again = load(tmp_path / "new" / "folder")
    assert type(again) is type(model)
    assert again.config == model.config
    assert not again.training
    assert torch.equal(run(again), run(model))
    assert [p.dtype for p in again.parameters()] == [p.dtype for p in model.parameters()]
    run(again).sum().backward()
    assert all(p.requires_grad for p in again.parameters())
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["model.json", "model.safetensors"]


def test_a_model_can_be_saved_over_itself(tmp_path) -> None:
    save(decoder(), tmp_path)
    model = load(tmp_path)
    before = run(model)
    with torch.no_grad():
        model.embedding.weight.mul_(2)
    save(model, tmp_path)
    assert torch.equal(run(load(tmp_path)), run(model))
    assert not torch.equal(run(model), before)


def test_nothing_is_unpickled(tmp_path) -> None:
    save(decoder(), tmp_path)
    code = (
        "import pickle, torch\nfrom regard.models import load\npickle.Unpickler = pickle.load = pickle.loads = None\n"
    )
    code += f"load({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)


def damage(folder, name):
    words, numbers = folder / "model.json", folder / "model.safetensors"
    said = json.loads(words.read_text())
    del said["checksum"]  # as after an edit by hand
    match name:
        case "no folder":
            return folder / "nowhere"
        case "no json":
            words.unlink()
        case "no numbers":
            numbers.unlink()
        case "cut off":
            numbers.write_bytes(numbers.read_bytes()[:-100])
        case "cut short":
            numbers.write_bytes(numbers.read_bytes()[:5])
        case "empty":
            numbers.write_bytes(b"")
        case "not json":
            words.write_text("{")
        case "binary json":
            words.write_bytes(b"\xff\xfe\x00")
        case "a list":
            words.write_text("[]")
        case "other format":
            words.write_text(json.dumps({**said, "format": 2}))
        case "other kind":
            words.write_text(json.dumps({**said, "kind": "diffusion"}))
        case "another model's json":
            words.write_text(json.dumps({**said, "config": {**said["config"], "layers": 3}}))
        case "fewer layers":
            words.write_text(json.dumps({**said, "config": {**said["config"], "layers": 1}}))
        case "other width":
            words.write_text(json.dumps({**said, "config": {**said["config"], "vocabulary": 41}}))
        case "impossible":
            words.write_text(json.dumps({**said, "config": {**said["config"], "heads": 5}}))
        case "from the future":
            words.write_text(json.dumps({**said, "config": {**said["config"], "mixture": 5}}))
        case "whole numbers":
            save_file({name: value.to(torch.int32) for name, value in load_file(numbers).items()}, numbers)
    return folder


WRONG = {
    "no folder": r"model\.json is missing, so .*nowhere is not a saved model: the folder does not exist",
    "no json": r"model\.json is missing, so .* is not a saved model: the folder contains model\.safetensors",
    "no numbers": r"model\.safetensors is missing",
    "cut off": r"model\.safetensors is not a file of weights, or is damaged",
    "cut short": "or is damaged .*; it has 5 bytes",
    "empty": "or is damaged .*; it has 0 bytes",
    "not json": r"model\.json is not written by save\(\), or is damaged \(Expecting property name",
    "binary json": r"model\.json is not written by save\(\), or is damaged \('utf-8' codec",
    "a list": "expected a JSON object, got list",
    "other format": "has format 2; this version of regard reads 1",
    "other kind": "has the kind 'diffusion'; the known kinds are decoder, encoder, seq2seq, recurrent",
    "another model's json": r"lacks layers\.2\..*which model\.json requires; the two files do not belong together",
    "fewer layers": r"contains layers\.1\..* and \d+ more, which the model of model\.json does not have",
    "other width": r"embedding\.weight has shape \(40, 32\), but model\.json requires \(41, 32\)",
    "impossible": r"is not a valid DecoderConfig, or is damaged \(heads must divide the channels, got 5 heads for 32",
    "from the future": "DecoderConfig has no mixture; a newer version of regard wrote it",
    "whole numbers": "must have a floating point type, got I32",
}


@pytest.mark.parametrize("case", WRONG)
def test_damaged_files_are_rejected(case, tmp_path) -> None:
    save(decoder(), tmp_path)
    with pytest.raises(ValueError, match=WRONG[case]) as caught:
        load(damage(tmp_path, case))
    assert str(tmp_path) in str(caught.value)


def test_only_our_models_are_saved(tmp_path) -> None:
    with pytest.raises(TypeError, match=r"a model of regard\.models .*, got Linear"):
        save(torch.nn.Linear(2, 2), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_previous_model_and_no_temporary_files(tmp_path) -> None:
    save(decoder(), tmp_path)
    before = run(load(tmp_path))
    (tmp_path / "model.json").rename(tmp_path / "kept")
    (tmp_path / "model.json").mkdir()  # a name that cannot be replaced by a file
    (tmp_path / "model.json" / "in the way").touch()
    with pytest.raises(OSError, match=r"model\.json"):
        save(decoder(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "model.json", "model.safetensors"]
    (tmp_path / "model.json" / "in the way").unlink()
    (tmp_path / "model.json").rmdir()
    (tmp_path / "kept").rename(tmp_path / "model.json")
    assert torch.equal(run(load(tmp_path)), before)


def test_loading_draws_no_random_numbers(tmp_path) -> None:
    save(decoder(), tmp_path)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    load(tmp_path)
    assert torch.equal(torch.rand(3), expected)
