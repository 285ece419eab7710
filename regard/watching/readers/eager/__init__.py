"""Reader of eager attention: follows a softmax of scores to the product of its result with values.

Attention written with torch functions is: scores, a product of two activations; a softmax of them; a product that sums
the result over the axis of the softmax. What happens in between is followed tensor by tensor: views, slices, casts,
dropout, masks, scaling and mixing of heads. The operand of the last product holds the weights, so whatever the model
did to them is included. Dropout is not: the weights before it are recorded.

A softmax of something else is not attention: the scores of experts, a vocabulary or a kernel function are the product
of an activation with a parameter. There the softmax must be over the axis of the activation, not over that of the
parameter: this is pooling with learned queries.

| tensor | from | followed in |
|---|---|---|
| scaled | an activation times a number: queries may be scaled before the product with keys | `scores` |
| constant | a cast or normalized parameter | `scores` |
| scores | a product of two activations, or of an activation and a parameter | `scores` |
| exponentials, their sum | exp(scores) and its sum: a softmax written by hand | `exponentials` |
| log weights | log_softmax(scores), or scores − logsumexp(scores) | `scores` |
| weights | a softmax of scores over the axis of the keys | `weights` |
| weighted values | weights × values elementwise, before the sum over the keys | `elementwise_products` |
| output | the product with values, followed to where batch and heads are separated | `value_products`, `outputs` |

`reader.read` receives every torch function. `tracker.Tracker` holds the tensors that are followed, `trails` has
the data types, `function_sets`, `products` and `axis_tracking` say what torch functions mean.
"""
