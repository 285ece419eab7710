"""Attention layers: single-head, multi-head, spatial, the KV cache, sinks and the head-count rules."""
