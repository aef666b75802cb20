"""Auto's rule: rounds and step size from the noise alone, which is public.

Let ``spread`` be the standard deviation of the noise on each number of a round's mean message, and
s1 = spread / sqrt(T): what it would be if the whole budget went into one round. It does not depend
on T, because noise with a budget for T rounds is sqrt(T) times larger. The step is

    lr = kappa / (T s1) = kappa / (sqrt(T) spread),

so the noise of all T rounds together moves a record of norm 1 by about kappa in its score, whatever
the budget, the clients and the rounds are. More rounds than needed cost time only; with fewer than
1 / (10 s1) steps would be longer than 10, which begins to overshoot.

Where s1 is above 0.01 (n mu below 100 with a trusted server) the noise decides, and three choices
change, all by public numbers: kappa is 2, clients that hold five records or more take 20 local
steps before they answer, which does for a client's own records what centring does for all, and the
centre is left out when its noise would be half as long as a record.
"""

from __future__ import annotations

import math

FEWEST, MOST = 60, 300  # rounds
GOOD_STEP, LARGEST_STEP = 10.0, 40.0
FEW = 0.01  # s1 above this: a federation with less than a hundred clients' worth of budget


def step_size(spread: float, rounds: int, kappa: float = 1.0) -> float:
    """kappa / (sqrt(T) spread), and no more than 40 where rounds are limited."""
    largest = LARGEST_STEP * kappa
    return min(largest, kappa / (math.sqrt(rounds) * spread)) if spread > 0 else largest


def enough_rounds(spread: float, rounds: int, most: int = MOST) -> int:
    """max(60, 1 / (10 s1)) rounds, from the spread of a round in a run of so many rounds."""
    s1 = spread / math.sqrt(rounds)
    wanted = math.ceil(1 / (GOOD_STEP * s1)) if GOOD_STEP * s1 * most > 1 else most
    return max(1, min(most, max(FEWEST, wanted)))


def most_rounds(clients: int, times: int | None = None) -> int:
    """The most rounds that are possible: clients who speak seldom are used up."""
    return MOST if times is None else min(MOST, clients * times)
