"""Allocation of a budget over rounds: schedules of noise levels with the same total cost.

A schedule of levels s_1 .. s_T is normalised to sum 1/s_t^2 = 1, so Gaussian noise z * s_t over the
whole run costs as much as one release with noise z. The dynamic allocation (Zhang, Fay and
Johansson, arXiv:2308.01139) minimises the final error if each round multiplies the error of earlier
rounds by a factor c: s_t^2 is proportional to c^(-(T-t)/2). So the early rounds, whose noise decays
most, get the most noise.
"""

from __future__ import annotations

import math

from tacit.errors import TacitError


def static_levels(rounds: int) -> tuple[float, ...]:
    """The same noise in every round."""
    return (math.sqrt(rounds),) * rounds


def dynamic_levels(rounds: int, contraction: float, most: float | None = None) -> tuple[float, ...]:
    """More noise early, less late, for an error that shrinks by ``contraction`` per round.

    ``most`` limits the first levels to a multiple of the last one. Without this limit, which the
    paper does not have, the first noise levels of a long run are astronomically large.
    """
    if not 0 < contraction <= 1:
        raise TacitError(f"the contraction is {contraction}; give a factor above 0, at most 1.")
    if most is not None and not most >= 1:
        raise TacitError(f"the cap on the noise is {most}; give at least 1.")
    rate = -math.log(contraction) / 4
    # Relative to the last round, in logarithms: c^(-(T-t)/4).
    exponents = [rate * (rounds - 1 - t) for t in range(rounds)]
    limit = math.log(most) if most is not None else 300.0
    levels = [math.exp(min(e, limit)) for e in exponents]
    total = math.sqrt(math.fsum(level**-2 for level in levels))
    return tuple(level * total for level in levels)
