"""Settings of a training run: duration, optimizer, learning rate, intervals."""

from dataclasses import dataclass
from math import cos, inf, pi

PRECISIONS = ("float32", "bfloat16")
STORES = ("float32", "float16", "bfloat16")
CLOCKS = ("wall", "cpu")
OPTIMIZERS = ("adamw", "muon")


@dataclass(frozen=True)
class Settings:
    """Settings of a training run.

    steps               number of updates
    minutes             training time; the learning rate then follows the time instead of the steps
    batch               examples per update, summed over all ranks
    accumulate          number of rounds a batch is computed in, for batches that do not fit into memory
    optimizer           "adamw", or "muon", which learns more per example if the model has large matrices
    learning_rate       peak learning rate
    warmup              steps in which the learning rate rises linearly; after them it falls along a cosine
    floor               final learning rate, as a fraction of the peak
    weight_decay        weight decay, applied to matrices only
    betas               decay rates of AdamW's two moments
    clip                maximum norm of the gradient
    evaluate_every      steps between two evaluations
    checkpoint_every    steps between two checkpoints
    patience            stop after this many evaluations without improvement; None: never
    precision           "bfloat16" computes in mixed precision (autocast)
    seed                seed of the initial weights, the order of the data and dropout
    threads             number of CPU threads; None: torch's default. Another number gives other rounding errors
    clock               what minutes measure: "wall", time that passes, or "cpu", CPU time of the first process
    store               number format of the saved model; "float16" takes half the bytes

    >>> Settings(steps=0)
    Traceback (most recent call last):
    ValueError: steps must be at least 1, got 0
    """

    steps: int | None = 1000
    minutes: float | None = None
    batch: int = 64
    accumulate: int = 1
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    warmup: int = 100
    floor: float = 0.02
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    evaluate_every: int = 200
    checkpoint_every: int = 200
    patience: int | None = None
    precision: str = "float32"
    seed: int = 0
    threads: int | None = None
    store: str = "float32"
    clock: str = "wall"

    def __post_init__(self) -> None:
        if self.steps is None and self.minutes is None:
            raise ValueError("the training needs an end: give steps or minutes, got neither")
        for name in ("steps", "batch", "accumulate", "evaluate_every", "checkpoint_every", "patience", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        for name in ("minutes", "learning_rate", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:
                raise ValueError(f"{name} must be greater than 0 and finite, got {value}")
        for name in ("warmup", "floor", "weight_decay", "seed"):
            if not 0 <= (value := getattr(self, name)) < inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {value}")
        if len(self.betas) != 2 or not all(isinstance(beta, float | int) and 0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be two numbers of at least 0 and less than 1, got {self.betas}")
        if self.batch % self.accumulate:
            raise ValueError(f"accumulate must divide batch, got {self.accumulate} rounds for {self.batch} examples")
        for name, choices in (
            ("precision", PRECISIONS),
            ("store", STORES),
            ("clock", CLOCKS),
            ("optimizer", OPTIMIZERS),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be {' or '.join(choices)}, got {getattr(self, name)!r}")
        object.__setattr__(self, "betas", tuple(self.betas))  # JSON turns a tuple into a list

    def progress(self, step: int, seconds: float) -> float:
        """Return the completed fraction of the training: 0 at the start, 1 or more at the end."""
        by_steps = 0.0 if self.steps is None else step / self.steps
        by_time = 0.0 if self.minutes is None else seconds / (60 * self.minutes)
        return max(by_steps, by_time)

    def learning_rate_at(self, step: int, seconds: float = 0.0) -> float:
        """Return the learning rate of a step.

        >>> settings = Settings(steps=1000, learning_rate=1e-3, warmup=100, floor=0.1)
        >>> [round(settings.learning_rate_at(step), 6) for step in (0, 99, 1000)]
        [1e-05, 0.000978, 0.0001]
        """
        cosine = self.floor + (1 - self.floor) * (1 + cos(pi * min(1.0, self.progress(step, seconds)))) / 2
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return self.learning_rate * rise * cosine
