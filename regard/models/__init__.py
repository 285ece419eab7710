"""Small transformers, a recurrent network to compare them with, and a network for board games.

| name | content |
|---|---|
| `Decoder` | GPT: each token attends to itself and to earlier tokens |
| `Encoder` | BERT: each token attends to all tokens |
| `Seq2Seq` | encoder and decoder for translation |
| `Recurrent` | LSTM encoder-decoder, without attention or with additive attention |
| `DecoderConfig` … | configurations of these models; `.modern(…)` has the options that are usual today |
| `generate`, `stream` | text generation: greedy, sampling or beam search, with a cache |
| `cross_entropy` | the loss from states, without the memory for all scores; `model.loss(…)` uses it |
| `save`, `load` | models as safetensors and JSON |
| `Layer`, `from_torch` | one transformer layer, and the conversion of torch's layers |
| `from_hf_gpt2`, `from_hf_bert` | conversion of Hugging Face's models |
| `BoardNet`, `BoardConfig` | policy and value of a board: residual convolutions with attention |
| `Evaluator` | runs a board network on the positions of many games together |
| `deepen`, `with_opening_table` | extend a trained board network |
| `HeadSchedule`, `attention_pattern` | number of heads by training progress; squares that a head attends to |

Token ids pass through an embedding and layers (`transformer`) to scores; `generation` turns scores into text; `convert`
brings weights from other libraries; `board` is the network for board games. Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
