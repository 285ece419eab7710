"""Text generation: prompts, sampling, beam search, the decoding state and its fast path."""
