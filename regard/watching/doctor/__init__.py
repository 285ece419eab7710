"""The attention doctor: checks that find what looks wrong in recorded calls, each with an example.

`examination` runs the checks. `arguments` reads padding and documents in the forms in which users have them, `subject`
collects what is known about a call, and `findings` holds the results. The checks are in `numbers`, `scale`,
`wrong_pairs`, `hidden_keys`, `idle_heads`, `layers`, and for calls of which only statistics are stored in
`stored_statistics`. `visible_pairs` decides from the masks alone which queries need their weights computed.
`run_comparison` is `regard.agree`, which compares two ways of running a model.

| finding | meaning |
|---|---|
| not finite | NaN or infinity in queries, keys, weights or bias |
| empty rows | queries that see no key: their output is zero in regard, NaN in other implementations |
| attends to padding | weight on keys that are padding |
| sees the future | weight on keys after the query, in a model that should be causal |
| mask inverted | all weight is on padding, or on the future: the mask hides what it should show |
| attends to another document | weight on keys of another document of a packed sequence |
| window ignored | weight on keys outside of the sliding window that the model states |
| own token hidden | no query sees its own key: a causal mask shifted by one |
| real tokens hidden | the mask hides real tokens, often because it belongs to another batch item |
| top-left causal mask | a causal mask aligned at the first key, although a cache has keys before the queries |
| attends to an empty cache | weight on keys of a cache that are not written yet |
| cache lost | single queries that see only their own key after a longer input |
| cache grows too fast | steps that add more keys than queries |
| softmax over the wrong axis | weights that sum to 1 over the queries |
| weights not normalized | a mask applied after the softmax |
| mask added as numbers | a mask of 0 and 1 added to the scores, which hides nothing |
| position bias inverted | a linear bias that prefers far keys |
| unusual scale | scores multiplied by something else than 1/√d, unless the model states it or normalizes q and k |
| dropout in evaluation | weights dropped although the module is in evaluation mode |
| uniform head | the same weight on every visible key, for every query: the head does nothing |
| one-token head | all weight on one and the same key, for every query |
| repeated head | the same weights as another head |
| dead values | values that are zero or the same for all tokens |
| repeated layers | layers of a list that are one module, have equal weights, or run in place of others |
| heads and tokens swapped | attention over the heads instead of the tokens |
| batch and tokens swapped | attention over the batch instead of the tokens |
| key heads in the wrong order | grouped key heads repeated as 0 1 0 1 instead of 0 0 1 1 |
| queries and keys swapped | cross-attention from the source to the target |
| source ignored | cross-attention that attends to the target itself |
"""
