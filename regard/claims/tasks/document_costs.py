"""Memory and operation counts of attention as one of the documents gives them, and corrected ones.

The document gives 5, 32 and 320 MB for 512, 2048 and 8192 tokens at width D = 512 in float32. Its formula,

    bytes = 4 · (3·S·D  +  S²  +  S·D)                  q, k, v · attention matrix · intermediates

yields exactly these numbers in MiB. It leaves out that every head and every batch item has a matrix of its own,

    bytes = 4 · (3·B·S·D  +  B·H·S²  +  B·S·D)

and that a fused kernel needs no matrix at all. Its operation count covers QKᵀ, softmax and the weighted sum,

    2·S²·D  +  5·S²  +  2·S²·D

and leaves out the four projections, 8·S·D², which are more than the two products up to S = 2·D tokens, and that
softmax is computed for each head: 5·H·S².
"""

from dataclasses import dataclass

from regard.costs import cost

DOCUMENT_MEGABYTES = {512: 5, 2048: 32, 8192: 320}  # tokens → "MB" as printed


def document_bytes(seq: int, d_model: int = 512) -> int:
    """Return the bytes by the document's formula.

    >>> [document_bytes(seq) / 2**20 for seq in (512, 2048, 8192)]
    [5.0, 32.0, 320.0]
    """
    return 4 * (3 * seq * d_model + seq**2 + seq * d_model)


@dataclass(frozen=True)
class Correction:
    """Bytes and operations at one length: as the document gives them, and corrected.

    document                bytes by the document's formula
    materialised            bytes with a matrix for every head and batch item
    fused                   bytes without a matrix: q, k, v, output, and one log-sum-exp for each row and head
    document_operations     operations by the document: products over pairs only
    operations              operations with the four projections, and softmax for every head
    """

    seq: int
    document: int
    materialised: int
    fused: int
    document_operations: int
    operations: int


def corrected(seq: int, d_model: int = 512, heads: int = 8, batch: int = 1) -> Correction:
    """Return the document's figures and the corrected ones.

    >>> right = corrected(8192)
    >>> right.document // 2**20, right.materialised // 2**20, right.fused // 2**20
    (320, 2112, 64)
    """
    inputs_and_output = 4 * batch * 4 * seq * d_model
    matrix, log_sum_exp = 4 * batch * heads * seq**2, 4 * batch * heads * seq
    return Correction(
        seq,
        document=document_bytes(seq, d_model),
        materialised=inputs_and_output + matrix,
        fused=inputs_and_output + log_sum_exp,
        document_operations=4 * seq**2 * d_model + 5 * seq**2,
        operations=cost(d_model=d_model, heads=heads, seq=seq, batch=batch).estimates[0].total.forward,
    )
