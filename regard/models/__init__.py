"""Small transformers, readable and fast, and the recurrent network they are compared with.

| name | what it is |
|---|---|
| `Decoder` | as GPT: each token sees those before it |
| `Encoder` | as BERT: each token sees all of them |
| `Seq2Seq` | both, as published for translation |
| `Recurrent` | LSTMs, without attention and with that of 2014 |
| `DecoderConfig` … | what they are made of; `.modern(…)` for what is usual now |
| `generate`, `stream` | greedy, drawn or by beams, with a cache |
| `cross_entropy` | the loss from states, without holding all scores; `model.loss(…)` uses it |
| `save`, `load` | safetensors and JSON |
| `Layer`, `from_torch` | one layer, and torch's own as one |
| `from_hf_gpt2`, `from_hf_bert` | weights of Hugging Face's models |
| `BoardNet`, `BoardConfig` | policy and value of a board: residual convolutions with attention between them |
| `Evaluator` | a board network for use: the positions of many games, judged together |
| `HeadSchedule`, `sight` | heads whose number follows the stage of training; what a head sees of a board |

Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
