"""Auto's rule: rounds and step size follow from the noise alone, which is public.

Let ``spread`` be the standard deviation of the noise on each number of a round's mean message, and
s1 = spread / sqrt(T) the value for a single round with the whole budget. s1 does not depend on T,
because a budget for T rounds needs noise that is sqrt(T) times larger. The step is

    lr = kappa / (T s1) = kappa / (sqrt(T) spread),

so the noise of all T rounds together changes the score of a record of norm 1 by about kappa, for
any budget, number of clients and number of rounds. More rounds than needed cost only time. With
fewer than 1 / (10 s1) rounds the step would exceed 10, and training starts to overshoot.

If s1 is above 0.01 (n mu below 100 with a trusted server), the noise dominates. Then three choices
change, all by public numbers. kappa is 2. Clients with five records or more take 20 local steps
before they answer, which has the same effect on a client's own records as centring has on all. The
centre is omitted if its noise would have half the norm of a record.
"""

from __future__ import annotations

import math

FEWEST, MOST = 60, 300  # rounds
GOOD_STEP, LARGEST_STEP = 10.0, 40.0
FEW = 0.01  # if s1 is above this (n mu below 100), the noise dominates


def step_size(spread: float, rounds: int, kappa: float = 1.0) -> float:
    """kappa / (sqrt(T) spread), at most 40 if the number of rounds is limited."""
    largest = LARGEST_STEP * kappa
    return min(largest, kappa / (math.sqrt(rounds) * spread)) if spread > 0 else largest


def enough_rounds(spread: float, rounds: int, most: int = MOST) -> int:
    """max(60, 1 / (10 s1)) rounds, from the spread of a round in a run of ``rounds`` rounds."""
    s1 = spread / math.sqrt(rounds)
    wanted = math.ceil(1 / (GOOD_STEP * s1)) if GOOD_STEP * s1 * most > 1 else most
    return max(1, min(most, max(FEWEST, wanted)))


def most_rounds(clients: int, times: int | None = None) -> int:
    """The largest possible number of rounds, if each client takes part in ``times`` rounds."""
    return MOST if times is None else min(MOST, clients * times)
