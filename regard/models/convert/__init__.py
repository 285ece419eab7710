"""Converters: weights of Hugging Face's GPT-2 and BERT, of torch's transformer layers, and board networks to ONNX."""
