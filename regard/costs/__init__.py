"""Cost of attention: operations and bytes, predicted from shapes and measured on real runs.

`regard.cost(...)` (`predict`) describes each attention call as a `Layer`, from sizes or by running a module once
(`module_inspection`). `operations`, `visible_pairs`, `stored_bytes` and `predicted_peak_memory` are the formulas;
`estimate` applies them to the layers. The result is a `Cost` (`result`), which prints as a table (`table`), draws a
plot (`plot`) and compares itself with a run under torch's profiler (`measurement`). `gru` is a recurrent layer, for
comparison.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
