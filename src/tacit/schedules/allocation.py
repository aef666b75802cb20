"""How a budget is spread over rounds: noise levels that spend exactly the same in total.

A schedule of levels s_1 .. s_T is normalised to sum 1/s_t^2 = 1, so Gaussian noise z * s_t over the
run costs what one release with noise z costs. The dynamic allocation (paper 002) minimises the
error at the end when each round shrinks the error of earlier ones by the factor c: s_t^2 is
proportional to c^(-(T-t)/2), so early rounds, whose noise is forgotten, get more of it.
"""

from __future__ import annotations

import math

from tacit.errors import TacitError


def static_levels(rounds: int) -> tuple[float, ...]:
    """The same noise in every round."""
    return (math.sqrt(rounds),) * rounds


def dynamic_levels(rounds: int, contraction: float, most: float | None = None) -> tuple[float, ...]:
    """More noise early, less late, for an error that shrinks by ``contraction`` a round.

    ``most`` caps the first levels at a multiple of the last one (E002-6): without a cap long runs
    begin with noise of astronomic size.
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
