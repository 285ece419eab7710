"""Converters from other libraries: weights of Hugging Face's GPT-2 and BERT, and of torch's transformer layers."""
