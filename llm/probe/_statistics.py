"""Statistics that accumulate: their memory does not grow with what they have seen.

Symbols: rows R, each a variable with a value for every token; tokens n.
"""

import functools
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Bool, Float, Int, UInt64

BINS = 1024
"""Of a row's histogram; a quantile is right to one of them."""


@final
class Moments:
    """Count, mean and sum of squared deviations of each row, merged as by Chan, Golub & LeVeque (1979)."""

    def __init__(self, rows: int) -> None:
        self.count, self.mean, self.squares = (np.zeros(rows) for _ in range(3))

    def merge(
        self, count: Float[np.ndarray, " R"], mean: Float[np.ndarray, " R"], squares: Float[np.ndarray, " R"]
    ) -> None:
        """Those of other tokens; mean and squares count as 0 where count is."""
        total = self.count + count
        share = np.divide(count, total, out=np.zeros_like(total), where=total > 0)
        apart = np.where(count > 0, mean, 0.0) - self.mean
        self.squares += np.where(count > 0, squares, 0.0) + apart**2 * self.count * share
        self.mean += apart * share
        self.count = total

    def add(
        self,
        count: Float[np.ndarray, "R B"],
        mean: Float[np.ndarray, "R B"],
        squares: Float[np.ndarray, "R B"],
    ) -> None:
        """Those of several parts, as `summed` finds them."""
        count, mean, squares = (part.astype(np.float64) for part in (count, mean, squares))
        total = count.sum(axis=1)
        of_all = (count * mean).sum(axis=1) / np.maximum(total, 1)
        apart = (count * (mean - of_all[:, None]) ** 2).sum(axis=1)
        self.merge(total, of_all, squares.sum(axis=1) + apart)

    @property
    def deviation(self) -> Float[np.ndarray, " R"]:
        """Standard deviation (n − 1 in the denominator); NaN for fewer than two values."""
        enough = self.count > 1
        return np.where(enough, np.sqrt(self.squares / np.where(enough, self.count - 1, 1)), np.nan)


@final
class Ratios:
    """Σx / Σn of each row over clusters (documents, say) that each give a sum x of n values.

    Its standard error takes values of one cluster to have anything in common:
    (m / (m − 1) · Σ (x − R n)²)^½ / Σn, of m clusters with the ratio R.
    """

    def __init__(self, rows: int) -> None:
        self.clusters, self.x, self.n, self.xx, self.xn, self.nn = (np.zeros(rows) for _ in range(6))

    def add(self, x: Float[np.ndarray, " R"], n: Float[np.ndarray, " R"]) -> None:
        """One cluster; rows of which it has no value are left out."""
        self.clusters += n > 0
        self.x += x
        self.n += n
        self.xx += x * x
        self.xn += x * n
        self.nn += n * n

    @property
    def mean(self) -> Float[np.ndarray, " R"]:
        """NaN for rows without values."""
        return np.divide(self.x, self.n, out=np.full_like(self.x, np.nan), where=self.n > 0)

    @property
    def standard_error(self) -> Float[np.ndarray, " R"]:
        """NaN for fewer than two clusters."""
        ratio = np.where(self.n > 0, self.mean, 0.0)
        rest = np.maximum(self.xx - 2 * ratio * self.xn + ratio**2 * self.nn, 0.0)
        enough = self.clusters > 1
        scale = np.where(enough, self.clusters / np.where(enough, self.clusters - 1, 1), np.nan)
        return np.sqrt(scale * rest) / np.where(self.n > 0, self.n, 1)


class Scale(NamedTuple):
    """The range of each row's histogram; log: whether its bins are even in the logarithm."""

    low: Float[np.ndarray, " R"]
    high: Float[np.ndarray, " R"]
    log: Bool[np.ndarray, " R"]

    @property
    def static(self) -> "StaticScale":
        """The same as plain values."""
        rows = list(zip(self.low.tolist(), self.high.tolist(), self.log.tolist(), strict=True))
        begins = [row for row in range(len(rows)) if row == 0 or rows[row] != rows[row - 1]]
        return tuple((a, b, *rows[a]) for a, b in zip(begins, [*begins[1:], len(rows)], strict=True))


@final
class Histogram:
    """Counts in BINS bins a row, least and largest value; values outside of the range count at its ends."""

    def __init__(self, scale: Scale) -> None:
        rows = len(scale.low)
        self.scale = scale.static
        self._low, self._high = (
            np.where(scale.log, np.log(np.where(scale.log, end, 1.0)), end)[:, None]
            for end in (scale.low, scale.high)
        )
        self._log = scale.log
        self.counts = np.zeros((rows, BINS), np.int64)
        self.least, self.most = np.full(rows, np.inf), np.full(rows, -np.inf)

    def add(
        self,
        bins: Int[np.ndarray, "R n"],
        least: Float[np.ndarray, " R"],
        most: Float[np.ndarray, " R"],
    ) -> None:
        """Values by their bins, as `summed` finds them; BINS is none."""
        places = bins + np.arange(len(bins), dtype=bins.dtype)[:, None] * (BINS + 1)
        found = np.bincount(places.ravel(), minlength=len(bins) * (BINS + 1))
        self.counts += found.reshape(len(bins), BINS + 1)[:, :BINS]
        self.least, self.most = np.minimum(self.least, least), np.maximum(self.most, most)

    def quantiles(self, shares: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q R"]:
        """Values below which these shares lie, to one bin; NaN for rows without values."""
        below = np.concatenate([np.zeros((len(self.counts), 1)), np.cumsum(self.counts, axis=1)], axis=1)
        found = np.full((len(shares), len(self.counts)), np.nan)
        for row, cumulated in enumerate(below):
            if cumulated[-1] == 0:
                continue
            at = np.interp(shares * cumulated[-1], cumulated, np.arange(BINS + 1))
            value = self._low[row, 0] + at / BINS * (self._high[row, 0] - self._low[row, 0])
            value = np.exp(value) if self._log[row] else value
            found[:, row] = np.clip(value, self.least[row], self.most[row])
        return found


class Summed(NamedTuple):
    """What is needed of the values of each row and sequence that count and are no NaN.

    count, mean, squares (of deviations from that mean) leave out infinities. bins: of the histogram; BINS
    where a value does not count. least, most: of each row; inf and −inf without values.
    """

    count: Float[Any, "R B"]
    mean: Float[Any, "R B"]
    squares: Float[Any, "R B"]
    bins: Int[Any, "R n"]
    least: Float[Any, " R"]
    most: Float[Any, " R"]


@functools.partial(jax.jit, static_argnums=2)
def summed(
    values: Float[ArrayLike, "R B T"], counted: Bool[ArrayLike, "B T"], scale: "StaticScale"
) -> Summed:
    """Of the tokens that are `counted`."""
    values, counted = jnp.asarray(values), jnp.asarray(counted)
    known = counted & ~jnp.isnan(values)
    finite = known & jnp.isfinite(values)
    count = jnp.sum(finite, axis=-1).astype(values.dtype)
    kept = jnp.where(finite, values, 0.0)
    mean = jnp.sum(kept, axis=-1) / jnp.maximum(count, 1)
    squares = jnp.sum(jnp.where(finite, kept - mean[..., None], 0.0) ** 2, axis=-1)
    parts = []
    for first, last, low, high, log in scale:
        part = values[first:last]
        if log:
            part, low, high = jnp.log(jnp.maximum(part, low)), np.log(low), np.log(high)
        parts.append(jnp.clip((part - low) * (BINS / (high - low)), 0, BINS - 1))
    bins = jnp.where(known, jnp.concatenate(parts), BINS).astype(jnp.int32)
    return Summed(
        count,
        mean,
        squares,
        bins.reshape(len(values), -1),
        jnp.min(jnp.where(known, values, jnp.inf), axis=(1, 2), initial=jnp.inf),
        jnp.max(jnp.where(known, values, -jnp.inf), axis=(1, 2), initial=-jnp.inf),
    )


StaticScale = tuple[tuple[int, int, float, float, bool], ...]
"""First and last row, low, high, log: of neighbouring rows that share a range."""


@final
class Sample:
    """A uniform sample of at most `size` tokens: those of the smallest of random numbers, one a token.

    The numbers depend on the seed, the sequence and the position alone, so that the sample does too.
    """

    def __init__(self, size: int, rows: int, seed: int = 0) -> None:
        self.size, self.seed = size, seed
        self.numbers = np.zeros(0, np.uint64)
        self.values = np.zeros((rows, 0), np.float32)

    def priorities(self, sequence: int, length: int) -> UInt64[np.ndarray, " length"]:
        """The numbers of a sequence's tokens."""
        return np.random.Philox(key=np.array([self.seed, sequence], np.uint64)).random_raw(length)

    def add(
        self,
        values: Float[np.ndarray, "R n"],
        numbers: UInt64[np.ndarray, " n"],
        kept: Bool[np.ndarray, " n"],
    ) -> None:
        """Those tokens that are to be kept, by their numbers."""
        if len(self.numbers) == self.size and self.size:
            kept = kept & (numbers < self.numbers.max())
        numbers = np.concatenate([self.numbers, numbers[kept]])
        order = np.argsort(numbers, kind="stable")[: self.size]
        self.numbers = numbers[order]
        self.values = np.concatenate([self.values, values[:, kept]], axis=1)[:, order]
