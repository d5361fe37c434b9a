"""How a looped language model is trained: one optax transformation over labelled groups of parameters.

Every parameter has a label: its group. The paper (arXiv:2604.21106, section on training) moves matrices by
MuonH and everything else by AdamW without decay. Each group has its own rate; all rates fall linearly from
the first update on, to a tenth at the last.

| group | parameters |
|---|---|
| matrix | weights of attention, MLP and injection, (in, out), stacked along leading axes |
| embedding | the embedding of tokens |
| head | the output head |
| scale | learnt scales of RMS norms |
| lane | scalars of hyperconnections |
"""

import abc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from llm._muonh import muonh
from llm._rules import require

GROUPS = ("matrix", "embedding", "head", "scale", "lane")

Schedule = Callable[[Any], Any]


@dataclass(frozen=True)
class Transfer:
    """How rates move with width d, batch B and tokens D from where they were tuned (arXiv:2604.21106).

    width: d_ref. batch_tokens: B_ref, tokens an update. num_tokens: D_ref, tokens in all; the paper's are 10
    for each of the 98.3 M parameters of its model of width 640 without recurrence, or 3750 batches.
    width_exponent: of d/d_ref, on every AdamW rate. batch_exponent: of B/B_ref, on the rates of matrix,
    embedding and head. token_exponent: of D/D_ref, on the rate of matrix.

    Raises ValueError for a size below 1 and an exponent that is not finite.
    """

    width: int = 640
    batch_tokens: int = 2**18
    num_tokens: int = 983_040_000
    width_exponent: float = -0.5
    batch_exponent: float = 0.558
    token_exponent: float = -0.32

    def __post_init__(self) -> None:
        for name in ("width", "batch_tokens", "num_tokens"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be at least 1")
        for name in ("width_exponent", "batch_exponent", "token_exponent"):
            require(math.isfinite(getattr(self, name)), name, getattr(self, name), "must be finite")


def transferred(
    rates: Mapping[str, float], *, width: int, batch_tokens: int, num_tokens: int, transfer: Transfer | None
) -> dict[str, float]:
    """The rate of each group at width d, B tokens an update and D tokens in all (arXiv:2604.21106).

    | group | factor, with the paper's exponents |
    |---|---|
    | matrix | (B/B_ref)^0.558 · (D/D_ref)^-0.32 |
    | embedding, head | (d/d_ref)^-0.5 · (B/B_ref)^0.558 |
    | scale, lane | (d/d_ref)^-0.5 |

    `transfer` None: the rates as they are. Raises ValueError for a size below 1 and a group without a rate.
    """
    for name, value in (("width", width), ("batch_tokens", batch_tokens), ("num_tokens", num_tokens)):
        require(value >= 1, name, value, "must be at least 1")
    _require_groups("rates", rates)
    if transfer is None:
        return {group: float(rates[group]) for group in GROUPS}
    by_width = (width / transfer.width) ** transfer.width_exponent
    by_batch = (batch_tokens / transfer.batch_tokens) ** transfer.batch_exponent
    by_tokens = (num_tokens / transfer.num_tokens) ** transfer.token_exponent
    factors = {
        "matrix": by_batch * by_tokens,
        "embedding": by_width * by_batch,
        "head": by_width * by_batch,
        "scale": by_width,
        "lane": by_width,
    }
    return {group: float(rates[group] * factors[group]) for group in GROUPS}


def decayed(peak: Any, steps: Any, final_fraction: float) -> Schedule:
    """Update → rate: linear from `peak` at update 0 to exactly final_fraction · peak at update steps − 1.

    A training of one update runs at full rate; after the last update the rate stays. `peak` and `steps` may
    be traced.
    """

    def rate(update: Any) -> Any:
        done = jnp.clip(update / jnp.maximum(steps - 1, 1), 0, 1)
        return peak * ((1 - done) + final_fraction * done)

    return rate


@dataclass(frozen=True)
class Optimiser(abc.ABC):
    """Rates of the groups and what moves each; to add one, subclass it here.

    embedding, head, scale, lane: AdamW rates at the first update. beta1, beta2, epsilon: AdamW's moments.
    final_fraction: share of every rate that is left at the last update. All from arXiv:2604.21106.

    Raises ValueError for a rate that is negative or not finite, and moments or a share out of range.
    """

    kind: ClassVar[str]

    matrix: float
    embedding: float = 0.3
    head: float = 0.004
    scale: float = 0.005
    lane: float = 0.01
    beta1: float = 0.8
    beta2: float = 0.95
    epsilon: float = 1e-10
    final_fraction: float = 0.1

    def __post_init__(self) -> None:
        for group in GROUPS:
            rate = getattr(self, group)
            require(math.isfinite(rate) and rate >= 0, group, rate, "must be a finite rate, 0 or more")
        for name in ("beta1", "beta2"):
            require(0 <= getattr(self, name) < 1, name, getattr(self, name), "must lie in [0, 1)")
        require(self.epsilon > 0, "epsilon", self.epsilon, "must be positive")
        require(0 <= self.final_fraction <= 1, "final_fraction", self.final_fraction, "must lie in [0, 1]")

    @abc.abstractmethod
    def rates(self, *, width: int, batch_tokens: int, num_tokens: int) -> dict[str, float]:
        """The rate of each group at the first update of a training of this size.

        width: d. batch_tokens: tokens an update. num_tokens: in all. Raises ValueError for one below 1.
        """

    @abc.abstractmethod
    def matrices(self, rate: Schedule) -> optax.GradientTransformation:
        """What moves the group `matrix`."""

    def transformation(
        self, rates: Mapping[str, Any], labels: Any, steps: Any
    ) -> optax.GradientTransformation:
        """What moves all parameters, for a training of `steps` updates.

        rates: of each group at the first update. labels: a tree like the parameters, with the names of groups
        as leaves. Rates and steps may be traced: one compiled step then serves every rate and length.

        Raises ValueError: a group without a rate, a label that is no group; in `init`, a parameter without a
        label, a label without a parameter.
        """
        _require_groups("rates", rates)
        for path, label in jax.tree_util.tree_leaves_with_path(labels):
            if not isinstance(label, str) or label not in GROUPS:
                where, known = jax.tree_util.keystr(path), ", ".join(GROUPS)
                raise ValueError(f"label of {where} is {label!r}: it must be one of {known}")
        schedules = {group: decayed(rates[group], steps, self.final_fraction) for group in GROUPS}
        movers = {group: self._adam(schedule) for group, schedule in schedules.items()}
        movers["matrix"] = self.matrices(schedules["matrix"])
        # A module can be callable, and a callable would be taken for a function that makes labels.
        parts = optax.partition(movers, lambda _: labels)

        def init(params: Any) -> Any:
            _require_labels(labels, params)
            return parts.init(params)

        return optax.GradientTransformation(init, parts.update)

    def _adam(self, rate: Schedule) -> optax.GradientTransformation:
        """AdamW without decay, which is Adam."""
        return optax.adam(rate, self.beta1, self.beta2, self.epsilon)


@dataclass(frozen=True)
class MuonH(Optimiser):
    """MuonH on matrices, AdamW without decay on the rest: the paper's (arXiv:2604.21106).

    matrix: MuonH's rate at the first update, in units of each matrix's own norm. momentum: its μ.
    transfer: how the rates move with the size of a training; None: they do not. (`transfer = {}` in a spec is
    the paper's.) Raises ValueError as `Optimiser`, and for a momentum outside [0, 1).
    """

    kind: ClassVar[str] = "muonh"

    matrix: float = 0.014
    momentum: float = 0.95
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        Optimiser.__post_init__(self)
        require(0 <= self.momentum < 1, "momentum", self.momentum, "must lie in [0, 1)")

    def rates(self, *, width: int, batch_tokens: int, num_tokens: int) -> dict[str, float]:
        return transferred(
            {group: getattr(self, group) for group in GROUPS},
            width=width,
            batch_tokens=batch_tokens,
            num_tokens=num_tokens,
            transfer=self.transfer,
        )

    def matrices(self, rate: Schedule) -> optax.GradientTransformation:
        return muonh(rate, self.momentum)


@dataclass(frozen=True)
class AdamW(Optimiser):
    """AdamW on everything (arXiv:1711.05101): the plain alternative, which the paper does not have.

    matrix: rate of the matrices at the first update; no source has one for this model. weight_decay: of the
    matrices only: an update takes rate · weight_decay of a matrix away. The rates are those of every size of
    training: the paper's rules of transfer were measured with MuonH. Raises ValueError as `Optimiser`, and
    for a decay out of range.
    """

    kind: ClassVar[str] = "adamw"

    matrix: float = 0.001
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        Optimiser.__post_init__(self)
        require(
            math.isfinite(self.weight_decay) and self.weight_decay >= 0,
            "weight_decay",
            self.weight_decay,
            "must be finite, 0 or more",
        )

    def rates(self, *, width: int, batch_tokens: int, num_tokens: int) -> dict[str, float]:
        del width, batch_tokens, num_tokens
        return {group: float(getattr(self, group)) for group in GROUPS}

    def matrices(self, rate: Schedule) -> optax.GradientTransformation:
        return optax.adamw(rate, self.beta1, self.beta2, self.epsilon, weight_decay=self.weight_decay)


def _require_groups(name: str, rates: Mapping[str, Any]) -> None:
    if set(rates) != set(GROUPS):
        raise ValueError(
            f"{name} has {', '.join(map(str, rates))}: it must have a rate for each of {', '.join(GROUPS)}"
        )


def _require_labels(labels: Any, params: Any) -> None:
    labelled, given = (
        {jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)}
        for tree in (labels, params)
    )
    for path in sorted(given - labelled):
        raise ValueError(f"parameter {path} has no label: label it with one of {', '.join(GROUPS)}")
    for path in sorted(labelled - given):
        raise ValueError(f"label of {path} belongs to no parameter: take it out of the labels")
