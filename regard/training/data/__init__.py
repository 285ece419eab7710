"""Training data: sentence pairs and texts, examples as tensors, and the order of batches.

`phrase_grammar` and `dates` generate pairs, `pairs` and `text` read files; `examples` turns tokens into tensors;
`batches` decides which examples form the batch of a step.
"""
