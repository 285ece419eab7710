"""LSTM encoder-decoder for translation, without attention or with additive attention (Bahdanau et al. 2014).

    encoder     h_1 … h_S, an LSTM in each direction over the source's embeddings
    decoder     s_t = LSTM(s_{t−1}, [y_{t−1} c_t]),  scores of y_t from [s_t c_t]
    without     c_t = c, the encoder's last state (Cho et al. 2014)
    with        c_t = Σ_j w_tj h_j,  w_t = softmax_j vᵀ tanh(W s_{t−1} + U h_j)      (Bahdanau et al. 2014)

The decoder's first state is a projection of the encoder's last states. Padding has no effect: the encoder runs on
packed sequences, and the softmax is over the real tokens of each row.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.types import Device

from regard.models.transformer.config import RecurrentConfig
from regard.models.transformer.embedding import Lengths, check_lengths, look_up
from regard.models.transformer.layer import reset_children
from regard.models.transformer.loss import cross_entropy


class EncodedSource(NamedTuple):
    """The encoded source: the result of `Recurrent.encode` and the input of `Recurrent.decode`."""

    states: Tensor  # (B, S, D)
    keys: Tensor  # (B, S, D), U h_j
    real: Tensor  # (B, S), True for tokens, False for padding
    summary: Tensor  # (B, D)
    hidden: Tensor  # (layers, B, D), the decoder's first state
    cell: Tensor  # (layers, B, D)

    def reorder(self, index: Tensor) -> "EncodedSource":
        """Return a copy in which row i is row index[i]."""
        states, keys, real, summary = (x[index] for x in (self.states, self.keys, self.real, self.summary))
        return EncodedSource(states, keys, real, summary, self.hidden[:, index], self.cell[:, index])


@dataclass
class DecoderState:
    """State of the decoder between two steps; hidden and cell are None before the first step."""

    before: Tensor | None = None  # (B,) number of empty places at the beginning of each row
    hidden: Tensor | None = None  # (layers, B, D)
    cell: Tensor | None = None
    length: int = 0

    def reorder(self, index: Tensor) -> None:
        """Replace row i by row index[i]."""
        self.before = None if self.before is None else self.before[index]
        self.hidden = None if self.hidden is None else self.hidden[:, index]
        self.cell = None if self.cell is None else self.cell[:, index]


class Recurrent(nn.Module):
    """Source ids (B, S) and target ids (B, T) → scores of the next target token (B, T, V).

    config          sizes and options
    device, dtype   of the parameters, as in every layer of torch

    >>> model = Recurrent(RecurrentConfig(100, 50, d_model=32, attention=True))
    >>> source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2]])
    >>> scores, weights = model(source, target, weights=True)
    >>> scores.shape, weights.shape  # (B, T, V), (B, T, S)
    (torch.Size([1, 2, 50]), torch.Size([1, 2, 3]))
    """

    def __init__(self, config: RecurrentConfig, *, device: Device = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.config = config
        width, deep = config.d_model, config.dropout if config.layers > 1 else 0.0
        self.source = nn.Embedding(config.source_vocabulary, width, **factory)
        self.target = nn.Embedding(config.target_vocabulary, width, **factory)
        lstm: dict[str, Any] = {"num_layers": config.layers, "batch_first": True, "dropout": deep, **factory}
        self.encoder = nn.LSTM(width, width // 2, bidirectional=True, **lstm)
        self.decoder = nn.LSTM(2 * width, width, **lstm)
        self.first_hidden = nn.Linear(width, width, **factory)
        self.first_cell = nn.Linear(width, width, **factory)
        self.additive = AdditiveAttention(width, **factory) if config.attention else None
        self.out = nn.Linear(2 * width, width, **factory)
        self.head = None if config.tied else nn.Linear(width, config.target_vocabulary, bias=False, **factory)
        self._reset_tables_and_lstms()

    def reset_parameters(self) -> None:
        """Initialise all parameters as the constructor does: linear layers as nn.Linear, tables normally.

        In the LSTMs recurrent matrices are orthogonal, others Xavier-uniform, biases 0, those of forget gates 1.
        """
        reset_children(self)
        self._reset_tables_and_lstms()

    @torch.no_grad()
    def _reset_tables_and_lstms(self) -> None:
        width = self.config.d_model
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=width**-0.5)
        for lstm in (self.encoder, self.decoder):
            for name, value in lstm.named_parameters():
                if "bias" in name:
                    nn.init.zeros_(value)
                    if "bias_ih" in name:
                        nn.init.ones_(value[lstm.hidden_size : 2 * lstm.hidden_size])
                    continue
                for gate in value.chunk(4):
                    if "weight_hh" in name:  # half precision has no QR decomposition
                        wide = torch.promote_types(gate.dtype, torch.float32)
                        gate.copy_(nn.init.orthogonal_(torch.empty_like(gate, dtype=wide)))
                    else:
                        nn.init.xavier_uniform_(gate)

    def forward(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"], source_lengths: Lengths = None,
        target_lengths: Lengths = None, *, weights: bool = False,
    ) -> Float[Tensor, "b t v"] | tuple[Float[Tensor, "b t v"], Float[Tensor, "b t s"]]:  # fmt: skip
        """Return the scores of the token after each target token; with weights=True also the attention weights."""
        return self.decode(target, self.encode(source, source_lengths), None, target_lengths, weights=weights)

    def encode(self, source: Int[Tensor, "b s"], source_lengths: Lengths = None) -> EncodedSource:
        """Run the encoder over the source in both directions."""
        check_lengths(source, source_lengths, self.config.context)
        batch, length = source.shape
        lengths = torch.full((batch,), length) if source_lengths is None else source_lengths
        if batch and (length if source_lengths is None else int(lengths.min())) < 1:
            raise ValueError("every row of source needs at least one token, got an empty row; remove it")
        x = self._dropout(look_up(self.source.weight, source))
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed_states, (hidden, cell) = self.encoder(packed)
        states, _ = pad_packed_sequence(packed_states, batch_first=True, total_length=length)  # (B, S, D)
        # The last states of both directions, (layers · 2, B, D/2), become (layers, B, D).
        hidden, cell = (x.unflatten(0, (self.config.layers, 2)).transpose(1, 2).flatten(2) for x in (hidden, cell))
        keys = states if self.additive is None else self.additive.key(states)
        real = torch.arange(length, device=source.device) < lengths.to(source.device)[:, None]
        first = torch.tanh(self.first_hidden(hidden)), self.first_cell(cell)
        return EncodedSource(states, keys, real, hidden[-1], *first)

    def decode(
        self, target: Int[Tensor, "b t"], memory: EncodedSource, source_lengths: Lengths = None,
        target_lengths: Lengths = None, cache: DecoderState | None = None, *, weights: bool = False,
    ) -> Float[Tensor, "b t v"] | tuple[Float[Tensor, "b t v"], Float[Tensor, "b t s"]]:  # fmt: skip
        """Return the scores (B, T, V) of the token after each target token.

        memory      the result of `encode`
        cache       from `model.new_cache(…)`: `target` then follows the tokens decoded before
        weights     also return the attention weights (B, T, S)
        """
        states, maps = self.states(target, memory, target_lengths, cache)
        scores = F.linear(states, self.table)
        if not weights:
            return scores
        if maps is None:
            raise ValueError("this network has no attention weights; build it with RecurrentConfig(…, attention=True)")
        return scores, maps

    def states(
        self, target: Int[Tensor, "b t"], memory: EncodedSource, target_lengths: Lengths = None,
        cache: DecoderState | None = None,
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t s"] | None]:  # fmt: skip
        """Return the vectors (B, T, D) that the output layer scores, and attention weights (B, T, S), if any."""
        check_lengths(target, target_lengths, self.config.context, 0 if cache is None else cache.length)
        x = self._dropout(look_up(self.target.weight, target))  # (B, T, D)
        first = (memory.hidden, memory.cell)
        if cache is not None and cache.hidden is not None and cache.cell is not None:
            first = (cache.hidden, cache.cell)
        before = None if cache is None else cache.before
        if self.additive is None and before is None:
            context = memory.summary[:, None].expand_as(x)
            outputs, last = self.decoder(torch.cat((x, context), -1), first)
            maps = None
        else:
            outputs, context, maps, last = self._token_by_token(x, memory, first, before, cache)
        if cache is not None:
            cache.hidden, cache.cell = last
            cache.length += x.shape[1]
        states = torch.tanh(self.out(torch.cat((outputs, context), -1)))
        return self._dropout(states), maps

    def loss(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"], targets: Int[Tensor, "b t"],
        source_lengths: Lengths = None, target_lengths: Lengths = None, **options: Any,
    ) -> Float[Tensor, ""]:  # fmt: skip
        """Return the cross-entropy of targets (B, T), the tokens after `target`; options as in `cross_entropy`."""
        states, _ = self.states(target, self.encode(source, source_lengths), target_lengths)
        return cross_entropy(states, self.table, targets, **options)

    def _token_by_token(
        self, x: Tensor, memory: EncodedSource, state: tuple[Tensor, Tensor], before: Tensor | None,
        cache: DecoderState | None,
    ) -> tuple[Tensor, Tensor, Tensor | None, tuple[Tensor, Tensor]]:  # fmt: skip
        """Run the decoder step by step: attention needs the state before each step."""
        outputs, contexts, maps = [], [], []
        start = 0 if cache is None else cache.length
        for t in range(x.shape[1]):
            if self.additive is None:
                context = memory.summary
            else:
                context, weights = self.additive(state[0][-1], memory)
                maps.append(weights)
            output, new = self.decoder(torch.cat((x[:, t], context), -1)[:, None], state)
            if before is not None and start + t < int(before.max()):
                started = (start + t >= before)[None, :, None]  # padding does not change the state
                new = (torch.where(started, new[0], state[0]), torch.where(started, new[1], state[1]))
            state = new
            outputs.append(output[:, 0])
            contexts.append(context)
        stacked = torch.stack(maps, 1) if maps else None
        return torch.stack(outputs, 1), torch.stack(contexts, 1), stacked, state

    def _dropout(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout, self.training)

    @property
    def table(self) -> Float[Tensor, "v d"]:
        """The weights of the output layer (V, D): those of the target embedding when they are tied."""
        return self.target.weight if self.head is None else self.head.weight

    def new_cache(self, batch: int, length: int, before: Tensor | None = None) -> DecoderState:
        """Return the state before the first step; unlike in the other models, `batch` and `length` have no effect."""
        return DecoderState(before)


class AdditiveAttention(nn.Module):
    """Attention of one decoder state s (B, D) over the encoder states h_j, with scores vᵀ tanh(W s + U h_j)."""

    def __init__(self, width: int, *, device: Device = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.query = nn.Linear(width, width, **factory)
        self.key = nn.Linear(width, width, bias=False, **factory)
        self.score = nn.Linear(width, 1, bias=False, **factory)

    def reset_parameters(self) -> None:
        """Initialise the three projections as nn.Linear does."""
        reset_children(self)

    def forward(
        self, state: Float[Tensor, "b d"], memory: EncodedSource
    ) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b s"]]:
        """Return the context (B, D) and the weights (B, S)."""
        scores = self.score(torch.tanh(self.query(state)[:, None] + memory.keys))[..., 0]  # (B, S)
        weights = scores.masked_fill(~memory.real, float("-inf")).softmax(-1)
        return (weights[:, None] @ memory.states)[:, 0], weights
