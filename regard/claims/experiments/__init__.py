"""Experiments, one claim in each module; their texts and settings are in `texts/NAME.toml`."""
