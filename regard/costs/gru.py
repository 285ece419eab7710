"""A recurrent layer of the same width, to compare with: a GRU, `torch.nn.GRU(D, D)`, forward in float32.

    operations      12 · B·S·D²                          three gates, a product of the input and one of the state each
    peak            4 · B·D · max(5·S + 1, 4·S + 5)      the gates of the input, the states, and their stack or a step
    steps           S                                    each waits for the one before; attention has 1
    path            S                                    from the first token to the last; attention has 1

Its work is linear in length where attention's is quadratic, and smaller from about S = D on; but its steps cannot be
taken at once.
"""

from dataclasses import dataclass

from regard.costs.measurement import Measurement


@dataclass(frozen=True)
class Recurrent:
    """What one layer costs for sequences of one length.

    >>> Recurrent(seq=10, d_model=64).operations
    491520
    """

    seq: int
    d_model: int = 512
    batch: int = 1

    @property
    def operations(self) -> int:
        """Products of matrices; a multiplication and an addition count as two."""
        return 12 * self.batch * self.seq * self.d_model**2

    @property
    def peak(self) -> int:
        """Bytes alive at the fullest moment of the call, beyond parameters and input."""
        return 4 * self.batch * self.d_model * max(5 * self.seq + 1, 4 * self.seq + 5)

    @property
    def steps(self) -> int:
        """Steps that wait for one another."""
        return self.seq

    def measure(self, repeats: int = 3) -> Measurement:
        """Run it: once under the profiler, `repeats` times against the clock.

        >>> found = Recurrent(seq=8, d_model=16).measure(repeats=1)
        >>> found.operations == found.predicted_operations, found.peak == found.predicted_peak
        (True, True)
        """
        import torch

        from regard.costs.measurement import timed
        from regard.costs.profiler import profiled

        layer = torch.nn.GRU(self.d_model, self.d_model, batch_first=True)
        x = torch.randn(self.batch, self.seq, self.d_model)

        def call() -> object:
            with torch.no_grad():
                return layer(x)

        call()
        seen = profiled(call)
        seconds = min(timed(lambda: call) for _ in range(repeats))
        return Measurement(self.seq, self.operations, seen.operations, self.peak, seen.peak, seconds)
