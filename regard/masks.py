"""Masks as rules: the public door to `regard.attention.masks`."""

from regard.attention.masks import *  # noqa: F403
from regard.attention.masks import __all__ as __all__
