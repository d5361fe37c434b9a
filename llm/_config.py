"""The config of a looped language model and of a run. Defaults are the paper's (arXiv:2604.21106).

Rules are checked where the object is made; the message names the field, the rule and the value.
"""

import math
from dataclasses import dataclass, field

from llm._injection import Injection, Linear, Passthrough
from llm._optim import MuonH, Optimiser
from llm._rules import require
from llm._tokens import DataConfig


@dataclass(frozen=True)
class SampledRecurrences:
    """The number of recurrences of each training step, drawn anew: 1 + Poisson((r − 1)·e^τ) ≤ most.

    τ is normal with standard deviation `spread` and mean −spread²/2, so that the mean is r but for what
    `most` cuts off (after Geiping et al., arXiv:2502.05171, section 3.3). As many programs are
    compiled as recurrences may keep gradients: `most`, or `backprop_recurrences`. Raises ValueError for a
    negative spread and fewer than one recurrence.
    """

    spread: float = 0.5
    most: int = 16

    def __post_init__(self) -> None:
        require(self.spread >= 0, "spread", self.spread, "must be at least 0")
        require(self.most >= 1, "most", self.most, "must be at least 1")


@dataclass(frozen=True)
class ModelConfig:
    """Prelude → one recurrent block, run r times → coda (arXiv:2604.21106, the section on models).

    width: d. head_size: of each attention head. prelude, coda: their layers. layers: executed by all
    recurrences together; the block has layers / num_recur of them. num_recur: r. injection: how the prelude's
    output enters the block; with r = 1 it is always `passthrough`, none. backprop_recurrences: how many of
    the last recurrences keep gradients, k (None: all). sampled: draw r anew in every step. mask_documents: no
    attention across documents of one sequence.

    Raises ValueError, naming field, value and rule: sizes out of range, a width that is no multiple of
    head_size, recurrences that do not divide the layers, and ways to learn that would leave parts untaught.
    """

    width: int = 640
    head_size: int = 128
    prelude: int = 2
    layers: int = 16
    coda: int = 2
    num_recur: int = 1
    injection: Injection | None = None
    backprop_recurrences: int | None = None
    sampled: SampledRecurrences | None = None
    mask_documents: bool = False

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("head_size", 2), ("layers", 1), ("num_recur", 1)):
            require(getattr(self, name) >= least, name, getattr(self, name), f"must be at least {least}")
        for name in ("prelude", "coda"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "must be at least 0")
        require(self.head_size % 2 == 0, "head_size", self.head_size, "must be even: positions rotate pairs")
        if self.width % self.head_size:
            raise ValueError(
                f"width is {self.width}: it must be a multiple of head_size, which is {self.head_size}"
            )
        if self.layers % self.num_recur:
            raise ValueError(
                f"num_recur is {self.num_recur}: it must divide layers, which is {self.layers}, since the "
                "block has layers / num_recur layers"
            )
        k = self.backprop_recurrences
        if k is not None:
            most = self.num_recur if self.sampled is None else self.sampled.most
            if not 1 <= k <= most:
                raise ValueError(f"backprop_recurrences is {k}: it must be from 1 to the recurrences, {most}")
            if k < most and self.injected.untaught is not None:
                raise ValueError(
                    f"backprop_recurrences is {k}: with injection {self.injected.kind} it must be {most} or "
                    f"left out, since {self.injected.untaught} would never be learnt"
                )
        if self.sampled is not None and self.sampled.most < self.num_recur:
            raise ValueError(
                f"sampled.most is {self.sampled.most}: it must be at least num_recur, {self.num_recur}"
            )

    @property
    def block(self) -> int:
        """Layers of the recurrent block."""
        return self.layers // self.num_recur

    @property
    def detaches(self) -> bool:
        """Whether a step can have recurrences without gradient."""
        return self.backprop_recurrences is not None and (
            self.sampled is not None or self.backprop_recurrences < self.num_recur
        )

    @property
    def injected(self) -> Injection:
        """The injection: none without recurrences, else by default linear."""
        if self.num_recur == 1:
            return Passthrough()
        return Linear() if self.injection is None else self.injection

    @property
    def executed(self) -> int:
        """Layers that a token goes through."""
        return self.prelude + self.layers + self.coda


@dataclass(frozen=True)
class Evaluation:
    """Validation: `points` times, evenly spaced in steps, the last at the end.

    sequences: how many, spread evenly over the validation set (None: all). batch: sequences at a time. Raises
    ValueError for a number below 1.
    """

    points: int = 1
    sequences: int | None = None
    batch: int = 32

    def __post_init__(self) -> None:
        require(self.points >= 1, "points", self.points, "must be at least 1")
        require(self.batch >= 1, "batch", self.batch, "must be at least 1")
        if self.sequences is not None:
            require(self.sequences >= 1, "sequences", self.sequences, "must be at least 1")

    def at(self, steps: int) -> tuple[int, ...]:
        """The steps after which it is done: increasing, ending with `steps`."""
        return tuple(sorted({max(1, round(steps * (i + 1) / self.points)) for i in range(self.points)}))


PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class RunConfig:
    """One training run.

    Exactly one of budget (training FLOPs) and num_tokens says how long; both are rounded to whole batches.
    batch: sequences a step. accumulation: parts that a batch is divided into, to save memory. precision: of
    states and products; parameters, norms, logits and the optimiser are float32. rematerialise: keep the
    states between blocks only, and compute the rest again for the gradient.

    Raises ValueError, naming field, value and rule: both of budget and num_tokens or neither, sizes out of
    range, an accumulation that does not divide the batch, an unknown precision.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimiser: Optimiser = field(default_factory=MuonH)
    budget: float | None = None
    num_tokens: float | None = None
    batch: int = 128
    accumulation: int = 1
    evaluation: Evaluation = field(default_factory=Evaluation)
    seed: int = 0
    precision: str = "float32"
    rematerialise: bool = False

    def __post_init__(self) -> None:
        if (self.budget is None) == (self.num_tokens is None):
            raise ValueError(
                f"budget is {self.budget} and num_tokens is {self.num_tokens}: set exactly one of them"
            )
        for name in ("budget", "num_tokens"):
            value = getattr(self, name)
            require(value is None or 0 < value < math.inf, name, value, "must be positive and finite")
        require(self.batch >= 1, "batch", self.batch, "must be at least 1")
        require(self.accumulation >= 1, "accumulation", self.accumulation, "must be at least 1")
        if self.batch % self.accumulation:
            raise ValueError(
                f"accumulation is {self.accumulation}: it must divide batch, which is {self.batch}"
            )
        require(self.seed >= 0, "seed", self.seed, "must be at least 0")
        require(self.seed < 2**31, "seed", self.seed, "must be below 2^31")
        require(
            self.precision in PRECISIONS,
            "precision",
            self.precision,
            f"must be one of {', '.join(PRECISIONS)}",
        )

    @property
    def batch_tokens(self) -> int:
        """Tokens that a step predicts."""
        return self.batch * self.data.context
