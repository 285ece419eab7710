"""Layers, positions and caches: the public door.

| name | what it is |
|---|---|
| `SelfAttention`, `BareSelfAttention` | one head, from nn.Linear and from bare parameters |
| `MultiHeadAttention` | self and cross, grouped heads, positions, sinks, KV cache |
| `SpatialAttention` | over the squares of a feature map (B, C, H, W) |
| `Sinusoidal`, `Learned` | positions added to the vectors |
| `Rotary`, `Alibi` | positions inside attention |
| `KVCache`, `GrowingCache`, `SlidingCache` | keys and values kept while decoding |
"""

from regard.attention.alibi import Alibi
from regard.attention.cache import GrowingCache, KVCache, SlidingCache
from regard.attention.multihead import MultiHeadAttention
from regard.attention.positions import Learned, Sinusoidal
from regard.attention.rotary import Rotary
from regard.attention.single import BareSelfAttention, SelfAttention
from regard.attention.spatial import SpatialAttention

__all__ = [
    "Alibi",
    "BareSelfAttention",
    "GrowingCache",
    "KVCache",
    "Learned",
    "MultiHeadAttention",
    "Rotary",
    "SelfAttention",
    "Sinusoidal",
    "SlidingCache",
    "SpatialAttention",
]
