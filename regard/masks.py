"""Masks for `regard.attend`; see `regard.attention.masks`."""

from regard.attention.masks import *  # noqa: F403
from regard.attention.masks import __all__ as __all__
