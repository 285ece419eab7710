"""Names of torch functions with the same meaning for attention written by hand: softmax, division, dropout, …"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.watching.readers.eager.axis_tracking import RESHAPES

SOFTMAX = {
    F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax, torch.sparse.softmax, F.softmin, F.gumbel_softmax,
}  # fmt: skip
LOG_SOFTMAX = {F.log_softmax, torch.log_softmax, Tensor.log_softmax, torch.special.log_softmax}
LOG_SUM_EXP = {torch.logsumexp, Tensor.logsumexp, torch.special.logsumexp}
EXPM1 = {torch.expm1, Tensor.expm1, Tensor.expm1_, torch.special.expm1}
EXP2 = {torch.exp2, Tensor.exp2, Tensor.exp2_, torch.special.exp2}
# Powers of a number or a tensor: the scores are their exponent.
POWERS = {torch.pow, Tensor.pow, Tensor.__pow__, Tensor.__rpow__, torch.float_power, Tensor.float_power}
# expm1 too: 1 is added before the division by the sum.
EXP = {torch.exp, Tensor.exp, Tensor.exp_, torch.exp_, *EXP2, *EXPM1}
SUMS = {torch.sum, Tensor.sum, torch.nansum, Tensor.nansum}
MEANS = {torch.mean, Tensor.mean}
RUNNING_SUMS = {torch.cumsum, Tensor.cumsum, Tensor.cumsum_}
SCATTERED_SUMS = {
    torch.scatter_add, Tensor.scatter_add, Tensor.scatter_add_, torch.scatter_reduce, Tensor.scatter_reduce,
    Tensor.scatter_reduce_, torch.index_add, Tensor.index_add, Tensor.index_add_, torch.segment_reduce,
}  # fmt: skip
DIVISIONS = {
    torch.div, Tensor.div, Tensor.div_, Tensor.__truediv__, torch.true_divide, Tensor.true_divide,
    Tensor.true_divide_, torch.divide, Tensor.divide, Tensor.divide_, Tensor.__itruediv__, Tensor.__div__,
    Tensor.__idiv__,
}  # fmt: skip
RECIPROCALS = {torch.reciprocal, Tensor.reciprocal, Tensor.reciprocal_, Tensor.__rtruediv__, Tensor.__rdiv__}
ADDITIONS = {torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__iadd__, Tensor.__radd__}
SUBTRACTIONS = {torch.sub, Tensor.sub, Tensor.__sub__, Tensor.sub_, Tensor.__isub__, torch.subtract, Tensor.subtract}
MULTIPLICATIONS = {
    torch.mul, Tensor.mul, Tensor.mul_, Tensor.__mul__, Tensor.__rmul__, Tensor.__imul__, torch.multiply,
    Tensor.multiply, Tensor.multiply_,
}  # fmt: skip
DROPOUT = {F.dropout, torch.dropout, torch.native_dropout, F.alpha_dropout, F.dropout1d, F.dropout2d, torch.dropout_}
CHUNKS = {torch.chunk, Tensor.chunk, torch.split, Tensor.split, torch.tensor_split, Tensor.tensor_split}
WRITES = {
    Tensor.__setitem__, Tensor.copy_, Tensor.scatter_, Tensor.scatter, torch.scatter, Tensor.index_copy_,
    Tensor.masked_scatter_, Tensor.masked_scatter, torch.masked_scatter, Tensor.index_put_, torch.slice_scatter,
    torch.select_scatter,
}  # fmt: skip
CASTS = {
    Tensor.to, Tensor.float, Tensor.double, Tensor.half, Tensor.bfloat16, Tensor.type, Tensor.type_as, F.normalize,
    torch._weight_norm, Tensor.contiguous, Tensor.clone, torch.clone,
}  # fmt: skip
# Functions of pairs of vectors.
PAIR_FUNCTIONS = {
    torch.cdist, torch.linalg.vecdot, torch.dot, Tensor.dot, torch.vdot, Tensor.vdot, F.cosine_similarity,
    F.pairwise_distance,
}  # fmt: skip
CONVOLUTIONS = {F.conv1d, F.conv2d}
# Functions whose result is no longer a score.
NO_SCORES = {
    F.scaled_dot_product_attention, F.embedding, F.layer_norm, torch.layer_norm, F.batch_norm, F.group_norm,
    F.instance_norm, F.rms_norm, F.gelu, F.silu, F.mish, F.cross_entropy, torch._native_multi_head_attention,
    torch._transformer_encoder_layer_fwd, torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu, torch.lstm_cell,
    torch.gru_cell, torch.rnn_tanh_cell, torch.rnn_relu_cell,
}  # fmt: skip
# Functions that keep the factor of the scores: score · factor + something.
KEEP_SCALE = {
    *RESHAPES, *CASTS, *CHUNKS, *WRITES, *SUBTRACTIONS, *SUMS, torch.add, Tensor.add, Tensor.add_, Tensor.__add__,
    Tensor.__radd__, Tensor.__iadd__, Tensor.masked_fill, Tensor.masked_fill_, torch.masked_fill, torch.where,
    Tensor.where, torch.cat, torch.concat, torch.stack, Tensor.__getitem__, Tensor.transpose, torch.transpose,
    Tensor.permute, torch.permute, Tensor.squeeze, torch.squeeze, Tensor.unsqueeze, torch.unsqueeze, Tensor.expand,
    torch.clamp, Tensor.clamp, Tensor.clamp_, torch.nan_to_num, Tensor.nan_to_num, F.pad, Tensor.movedim,
    torch.movedim, Tensor.gather, torch.gather, Tensor.index_select, torch.index_select, Tensor.narrow, torch.narrow,
    Tensor.swapaxes, torch.swapaxes, Tensor.tril, torch.tril, torch.topk,
    Tensor.topk, Tensor.unfold, torch.addcmul, Tensor.masked_fill_, torch.as_strided, Tensor.as_strided,
    *DROPOUT,
}  # fmt: skip
# Linear functions of a scaled activation, such as rotary position embeddings.
KEEP_FACTOR = (KEEP_SCALE - SUMS - WRITES) | {torch.neg, Tensor.neg, Tensor.__neg__}
