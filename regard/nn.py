"""Attention layers, position encodings and KV caches.

| name | contents |
|---|---|
| `SelfAttention`, `BareSelfAttention` | one head, with nn.Linear or with bare parameters |
| `MultiHeadAttention` | self- and cross-attention, grouped heads, positions, sinks, KV cache |
| `SpatialAttention` (alias `SpatialSelfAttention`) | over the squares of a feature map (B, C, H, W) |
| `Sinusoidal`, `Learned` | positions added to the vectors |
| `Rotary`, `Alibi` | positions that act inside attention |
| `KVCache`, `GrowingCache`, `SlidingCache` | keys and values of earlier tokens while decoding |
"""

from regard.attention.layers.kv_cache import GrowingCache, KVCache, SlidingCache
from regard.attention.layers.multi_head_attention import MultiHeadAttention
from regard.attention.layers.self_attention import BareSelfAttention, SelfAttention
from regard.attention.layers.spatial_attention import SpatialAttention
from regard.attention.positions.alibi import Alibi
from regard.attention.positions.learned import Learned
from regard.attention.positions.rotary import Rotary
from regard.attention.positions.sinusoidal import Sinusoidal

SpatialSelfAttention = SpatialAttention

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
    "SpatialSelfAttention",
]
