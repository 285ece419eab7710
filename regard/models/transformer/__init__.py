"""Transformers: `config` describes a model, `embedding` makes vectors of tokens, `layer` transforms them.

`encoder`, `decoder` and `seq2seq` stack the layers, `loss` compares the result with targets, and `decoder_layer_caches`
holds keys and values during generation.
"""
