"""Registration of regard's attention with transformers."""

from regard.extras import MissingExtraError, installed

NAME = "regard"
"""The `attn_implementation` that `register` adds."""


def register() -> None:
    """Make `attn_implementation="regard"` available in transformers; further calls change nothing.

    >>> import torch, transformers
    >>> register()
    >>> sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 20, "bos_token_id": 1, "eos_token_id": 2}
    >>> model = transformers.GPT2Model._from_config(transformers.GPT2Config(**sizes), attn_implementation="regard")
    >>> with torch.no_grad():
    ...     attentions = model.eval()(torch.tensor([[3, 4, 5]]), output_attentions=True).attentions
    >>> attentions[0].shape                              # (B, H, L, S); not computed yet
    torch.Size([1, 2, 3, 3])
    >>> attentions[0][0, 1].sum(-1).round(decimals=4)    # computes one head
    tensor([1., 1., 1.])
    """
    if not installed("transformers"):
        raise MissingExtraError("regard.huggingface", "transformers", "demo")
    import transformers

    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface
    except ImportError:
        raise ImportError(
            f"regard.huggingface needs transformers 4.53 or newer, found {transformers.__version__}: "
            'pip install -U "regard[demo]"'
        ) from None
    from regard.huggingface.attention_function import attention
    from regard.huggingface.mask_creation import create_mask

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, create_mask)
