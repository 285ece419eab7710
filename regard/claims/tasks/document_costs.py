"""The figures of the document this work starts from, 5, 32 and 320 MB, and what they leave out.

It gives memory for 512, 2048 and 8192 tokens at width D = 512 in float32. Its formula,

    bytes = 4 · (3·S·D  +  S²  +  S·D)                  q, k, v · attention matrix · intermediates

gives exactly its figures, in MiB. It leaves out that every head and every batch item has a matrix of its own,

    bytes = 4 · (3·B·S·D  +  B·H·S²  +  B·S·D)

and that a fused kernel needs no matrix at all. Of the operations it has those of QKᵀ, softmax and weighted sum,

    2·S²·D  +  5·S²  +  2·S²·D

in our units, and leaves out the four projections, 8·S·D², which are more than the two products up to S = 2·D
tokens, and that softmax, too, is for each head: 5·H·S².
"""

from dataclasses import dataclass

SAID = {512: 5, 2048: 32, 8192: 320}  # tokens → "MB"


def of_the_document(seq: int, d_model: int = 512) -> int:
    """Bytes by the document's formula.

    >>> [of_the_document(seq) / 2**20 for seq in (512, 2048, 8192)]
    [5.0, 32.0, 320.0]
    """
    return 4 * (3 * seq * d_model + seq**2 + seq * d_model)


@dataclass(frozen=True)
class Correction:
    """Bytes and operations at one length: as the document has them, and as they are.

    document                the document's bytes
    materialised            with a matrix for every head and batch item
    fused                   without any: q, k, v, output and one log-sum-exp a row and head
    document_operations     the document's operations: pairs only
    operations              with the four projections, and softmax for every head
    """

    seq: int
    document: int
    materialised: int
    fused: int
    document_operations: int
    operations: int


def corrected(seq: int, d_model: int = 512, heads: int = 8, batch: int = 1) -> Correction:
    """The document's figures with what they leave out beside them.

    >>> right = corrected(8192)
    >>> right.document // 2**20, right.materialised // 2**20, right.fused // 2**20
    (320, 2112, 64)
    """
    from regard.costs.predict import cost

    linear = 4 * batch * 4 * seq * d_model
    matrix, lse = 4 * batch * heads * seq**2, 4 * batch * heads * seq
    found = cost(d_model=d_model, heads=heads, seq=seq, batch=batch).estimates[0]
    pairs = 4 * seq**2 * d_model + 5 * seq**2
    return Correction(
        seq, of_the_document(seq, d_model), linear + matrix, linear + lse, pairs, found.total.forward
    )  # fmt: skip
