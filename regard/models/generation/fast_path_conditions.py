"""Whether a model may be run without calling its modules."""

import torch
from torch import nn

from regard.attention.listeners import call_listeners
from regard.models.transformer.decoder import Decoder
from regard.models.transformer.embedding import Embedding
from regard.models.transformer.feedforward import FeedForward
from regard.models.transformer.layer import Layer
from regard.models.transformer.seq2seq import Reader, Seq2Seq, Writer
from regard.nn import Learned, MultiHeadAttention, Rotary, Sinusoidal

OURS = {
    Decoder,
    Seq2Seq,
    Reader,
    Writer,
    Embedding,
    Layer,
    FeedForward,
    MultiHeadAttention,
    Rotary,
    Sinusoidal,
    Learned,
}
TORCHS = {nn.ModuleList, nn.Linear, nn.LayerNorm, nn.RMSNorm}


def unwatched(model: nn.Module) -> bool:
    """Whether its modules are what they seem (none replaced by another, none hooked), and nobody is listening."""
    return (
        type(model) in (Decoder, Seq2Seq)
        and not call_listeners
        and not torch.is_autocast_enabled(next(model.parameters()).device.type)
        and all(
            type(module) in OURS | TORCHS and not module._forward_hooks and not module._forward_pre_hooks
            for module in model.modules()
        )
    )


def simple(model: nn.Module) -> bool:
    """Whether all its numbers are float32 in this machine's memory."""
    return all(x.dtype == torch.float32 and x.is_cpu for x in model.parameters())
