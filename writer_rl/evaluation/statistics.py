"""Intervals and paired comparisons over evaluation rows. Networks are the unit of resampling: questions of one network
share a memory, so they are not independent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, norm

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


def bootstrap_mean(values: Mapping[str, Sequence[float]], seed: int = 0) -> Interval:
    """Mean over all values, resampling the networks that own them (percentiles 2.5 and 97.5).

    `values`: network -> its values (questions x seeds). Question weighting as in MeanQ.
    """
    sums = np.array([float(np.sum(values[name])) for name in sorted(values)])
    counts = np.array([len(values[name]) for name in sorted(values)], dtype=float)
    return _interval(sums, counts, seed)


def bootstrap_network_mean(values: Mapping[str, Sequence[float]], seed: int = 0) -> Interval:
    """Mean of the networks' means, networks as the units of resampling (MeanN of Eq. 12, percentiles 2.5 and 97.5)."""
    return bootstrap_mean({name: [float(np.mean(ones))] for name, ones in values.items()}, seed)


def paired_difference(first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]], seed: int = 0) -> Interval:
    """Mean of `second` minus mean of `first`, both over the same resampled networks. ValueError if they differ in networks."""
    if first.keys() != second.keys():
        raise ValueError("a paired comparison needs the same networks on both sides")
    names = sorted(first)
    chosen = _resamples(len(names), seed)  # [B, N]
    means = []
    for values in (first, second):
        sums = np.array([float(np.sum(values[name])) for name in names])
        counts = np.array([len(values[name]) for name in names], dtype=float)
        means.append((sums[chosen].sum(1) / counts[chosen].sum(1), sums.sum() / counts.sum()))
    drawn = means[1][0] - means[0][0]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(float(means[1][1] - means[0][1]), float(low), float(high))


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Exact two-sided McNemar p-value over paired questions: 1 where no question changed."""
    gained = sum(b and not a for a, b in zip(first, second, strict=True))
    lost = sum(a and not b for a, b in zip(first, second, strict=True))
    return 1.0 if gained + lost == 0 else float(binomtest(gained, gained + lost).pvalue)


def wilson(correct: float, total: int) -> Interval:
    """Wilson 95 % interval of a share of `total` independent questions; (0, 0, 1) of nothing. `correct` is no whole number
    where a question counts by the mean over its seeds."""
    if total == 0:
        return Interval(0.0, 0.0, 1.0)
    z = float(norm.ppf(0.975))
    share = correct / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * np.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return Interval(share, float(max(0.0, centre - half)), float(min(1.0, centre + half)))


def _interval(sums: NDArray[np.float64], counts: NDArray[np.float64], seed: int) -> Interval:
    chosen = _resamples(len(sums), seed)
    low, high = np.percentile(sums[chosen].sum(1) / counts[chosen].sum(1), [2.5, 97.5])
    return Interval(float(sums.sum() / counts.sum()), float(low), float(high))


def _resamples(networks: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, networks, size=(RESAMPLES, networks))
