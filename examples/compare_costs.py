"""Operations and memory of attention: full, causal, a window, and grouped heads."""

import regard
from regard import masks

SIZES = {"d_model": 512, "heads": 8, "seq": 8192}

for name, options in {
    "full": {},
    "causal": {"mask": masks.causal()},
    "window of 256": {"mask": masks.causal() & masks.window(keys=256)},
    "2 key heads": {"kv_heads": 2},
    "weights stored": {"materialised": True},
}.items():
    estimate = regard.cost(**SIZES, **options).estimates[0]
    operations = sum(work.forward for work in estimate.operations.values())
    print(f"{name:15} {operations / 1e9:6.1f} G operations, peak {estimate.peak / 2**20:7.0f} MB")
