"""Configurations: defaults, and errors for invalid values."""

import dataclasses

import pytest

from regard.models import DecoderConfig, EncoderConfig, RecurrentConfig, Seq2SeqConfig


def test_defaults_are_those_of_the_publication() -> None:
    config = DecoderConfig(100)
    assert (config.norm, config.activation, config.positions, config.normalisation) == (
        "post",
        "relu",
        "sinusoidal",
        "layer",
    )
    assert (config.d_model, config.heads, config.d_k, config.inner) == (256, 8, 32, 1024)


def test_modern_configuration() -> None:
    config = Seq2SeqConfig.modern(100, 90, d_model=96, heads=6)
    assert (config.source_vocabulary, config.target_vocabulary) == (100, 90)
    assert (config.norm, config.normalisation, config.activation, config.positions) == (
        "pre",
        "rms",
        "swiglu",
        "rotary",
    )
    assert config.inner == 256  # 8/3 · 96: three matrices with as many weights as two of 4 · 96
    assert DecoderConfig.modern(10, activation="gelu").activation == "gelu"


WRONG = {
    "heads": (ValueError, {"heads": 24}, r"24 heads for 256 channels; the nearest counts that do are 16 .* and 32"),
    "groups": (ValueError, {"kv_heads": 3}, "key/value heads must divide the query heads, got 3 for 8"),
    "rotary": (ValueError, {"d_model": 24, "positions": "rotary"}, "heads of even width, got 24 / 8 = 3 channels"),
    "norm": (ValueError, {"norm": "middle"}, "norm must be one of 'post', 'pre', got 'middle'"),
    "positions": (ValueError, {"positions": "spiral"}, "'learned', 'rotary', 'alibi', 'none', got 'spiral'"),
    "activation": (ValueError, {"activation": "sin"}, "activation must be one of 'relu', 'gelu'"),
    "dropout": (ValueError, {"dropout": 1.0}, "dropout must be at least 0 and less than 1, got 1.0"),
    "dropout text": (TypeError, {"dropout": "0.1"}, "dropout must be a number, got '0.1' of type str"),
    "layers": (ValueError, {"layers": 0}, "layers must be at least 1, got 0"),
    "context": (TypeError, {"context": 2.0}, "context must be a whole number, got 2.0"),
    "d_ff": (ValueError, {"d_ff": -4}, "d_ff must be at least 1, got -4"),
    "tied": (TypeError, {"tied": 1}, "tied must be True or False, got 1"),
    "epsilon": (ValueError, {"epsilon": 0.0}, "epsilon must be a small positive number"),
    "vocabulary": (ValueError, {"vocabulary": 0}, "vocabulary must be at least 1"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", WRONG)
def test_invalid_values_are_rejected(case) -> None:
    error, changes, message = WRONG[case]
    for kind in (DecoderConfig, EncoderConfig):
        with pytest.raises(error, match=message):
            kind(**{"vocabulary": 100, **changes})


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (Seq2SeqConfig, {"encoder_layers": 0}, "encoder_layers must be at least 1"),
        (RecurrentConfig, {"d_model": 31}, "d_model must be even, .* got 31"),
        (RecurrentConfig, {"dropout": -0.1}, "dropout must be at least 0"),
    ],
)
def test_invalid_values_of_models_with_a_source_are_rejected(kind, changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        kind(10, 10, **changes)


def test_a_configuration_is_frozen_and_can_be_changed_by_replacing() -> None:
    config = DecoderConfig(100)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 3
    assert dataclasses.replace(config, d_model=64).inner == 256
