"""Cost of a recurrent layer of the same width, for comparison: `torch.nn.GRU(D, D)`, forward in float32.

    operations      12 · B·S·D²                          three gates, each a product of the input and one of the state
    peak            4 · B·D · max(5·S + 1, 4·S + 5)      gates of the input, states, and their stack or one step
    steps           S                                    sequential steps; attention has 1

Operations are linear in length, those of attention quadratic; from about S = D on the GRU needs fewer. But its steps
cannot run in parallel, and information from the first token passes through all of them.
"""

from dataclasses import dataclass

import torch

from regard.costs.measurement import Measurement, measure_calls


@dataclass(frozen=True)
class Recurrent:
    """Cost of one GRU layer for sequences of one length.

    seq         number of tokens
    d_model     width of the input and of the state
    batch       number of sequences

    >>> Recurrent(seq=10, d_model=64).operations
    491520
    """

    seq: int
    d_model: int = 512
    batch: int = 1

    @property
    def operations(self) -> int:
        """Operations of the matrix products; a multiplication and an addition count as two."""
        return 12 * self.batch * self.seq * self.d_model**2

    @property
    def peak(self) -> int:
        """Peak of the bytes allocated during the call, without parameters and input."""
        return 4 * self.batch * self.d_model * max(5 * self.seq + 1, 4 * self.seq + 5)

    @property
    def steps(self) -> int:
        """Number of sequential steps."""
        return self.seq

    def measure(self, repeats: int = 3) -> Measurement:
        """Run the layer once under the profiler, then `repeats` times to measure the time.

        >>> result = Recurrent(seq=8, d_model=16).measure(repeats=1)
        >>> result.operations == result.predicted_operations, result.peak == result.predicted_peak
        (True, True)
        """
        layer = torch.nn.GRU(self.d_model, self.d_model, batch_first=True)
        x = torch.randn(self.batch, self.seq, self.d_model)
        run = torch.no_grad()(lambda: layer(x))
        return measure_calls(self.seq, self.operations, self.peak, [lambda: run], repeats)
