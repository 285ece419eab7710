"""Training data: sentence pairs and texts, examples as tensors, and the order of batches.

`datasets` and `text` read or generate texts; `examples` turns their tokens into tensors; `batches` decides which
examples form the batch of a step.
"""
