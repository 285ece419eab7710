"""Transformer models: encoder, decoder, sequence-to-sequence, and their parts."""
