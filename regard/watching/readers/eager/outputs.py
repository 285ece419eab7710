"""The output of an attention call, followed to where the model separates batch and heads."""

from dataclasses import replace

from torch import Tensor

from regard.watching.readers.eager.axis_tracking import RESHAPES, follow_axis, split_by_reshape
from regard.watching.readers.eager.function_call import FunctionCall
from regard.watching.readers.eager.function_sets import CHUNKS, NO_SCORES
from regard.watching.readers.eager.products import PRODUCTS, read_product
from regard.watching.readers.eager.tracker import Tracker
from regard.watching.readers.eager.trails import Trail


def continue_output(tracker: Tracker, call: FunctionCall, x: Tensor, trail: Trail) -> None:
    """Follow an output: to the split of its axis of batch and heads, or for learned queries to a sum over them."""
    func, out, fold = call.func, call.out, trail.fold
    if func in NO_SCORES:
        return
    assert trail.axis is not None
    if fold is None:  # the result for learned queries
        if func in PRODUCTS and trail.softmax is not None:
            product = read_product(func, call.args, call.kwargs)
            if product is not None and any(
                y is x and term[trail.axis] not in product.result
                for y, term in zip(product.operands, product.labels, strict=True)
            ):
                trail.softmax.queries_summed = not any(map(tracker.is_fixed, product.operands))
            return
    elif func in RESHAPES:
        fold.split = fold.split or split_by_reshape(x.shape, out.shape, trail.axis)
    elif func in CHUNKS and out and out[0].dim() == x.dim() and out[0].shape[trail.axis] < fold.size:
        fold.split = fold.split or (len(out), out[0].shape[trail.axis])
    if fold is None or fold.split is None:
        for y, axis in follow_axis(func, call.args, call.kwargs, x, trail.axis, out):
            if axis is not None:
                tracker.follow(y, replace(trail, axis=axis))
