"""Statistics that accumulate: their memory does not grow with what they have seen.

Symbols: rows R, each a variable with a value for every token; tokens n.
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, UInt64

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

    def add(self, values: Float[np.ndarray, "R n"]) -> None:
        """Values that are not finite are left out."""
        values = values.astype(np.float64)
        real = np.isfinite(values)
        count = real.sum(axis=1).astype(np.float64)
        kept = np.where(real, values, 0.0)
        mean = kept.sum(axis=1) / np.maximum(count, 1)
        self.merge(count, mean, (np.where(real, kept - mean[:, None], 0.0) ** 2).sum(axis=1))

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


@final
class Histogram:
    """Counts in BINS bins a row, least and largest value; values outside of the range count at its ends."""

    def __init__(self, scale: Scale) -> None:
        rows = len(scale.low)
        self._low, self._high = (
            np.where(scale.log, np.log(np.where(scale.log, end, 1.0)), end)[:, None]
            for end in (scale.low, scale.high)
        )
        self._log = scale.log
        self.counts = np.zeros((rows, BINS), np.int64)
        self.least, self.most = np.full(rows, np.inf), np.full(rows, -np.inf)

    def add(self, values: Float[np.ndarray, "R n"], counted: Bool[np.ndarray, " n"]) -> None:
        """Those tokens that are `counted`; NaN is left out."""
        kept = counted & ~np.isnan(values)
        scaled = values.astype(np.float32, copy=True)
        some = scaled[self._log]
        with np.errstate(divide="ignore"):
            scaled[self._log] = np.log(some, where=some > 0, out=np.full_like(some, -np.inf))
        share = (scaled - self._low.astype(np.float32)) * (BINS / (self._high - self._low)).astype(np.float32)
        bins = np.where(kept, np.clip(share, 0, BINS - 1), BINS).astype(np.int64)
        bins += np.arange(len(values))[:, None] * (BINS + 1)
        found = np.bincount(bins.ravel(), minlength=len(values) * (BINS + 1))
        self.counts += found.reshape(len(values), BINS + 1)[:, :BINS]
        self.least = np.minimum(self.least, np.where(kept, values, np.inf).min(axis=1, initial=np.inf))
        self.most = np.maximum(self.most, np.where(kept, values, -np.inf).max(axis=1, initial=-np.inf))

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
