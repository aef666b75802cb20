"""Deliberately broken variants of the library, and what catches each.

    python tests/audit/broken.py        writes results/audit/broken.json

A catcher must flag the variant, and must flag nothing without it (``test_broken``).
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import catchers
import charges_and_leaks as charges
import faults
from catchers import Catcher, Found, without
from faults import Fault, planted
from hypothesis import settings

COMMAND = "python tests/audit/broken.py"
RESULT = Path(__file__).resolve().parents[2] / "results" / "audit" / "broken.json"


@dataclass(frozen=True)
class Variant:
    """One fault: what is broken, in one sentence, and who has to flag it."""

    name: str
    about: str
    fault: Fault
    caught_by: Catcher

    def how(self) -> AbstractContextManager[None]:
        """The library with this fault."""
        return planted(self.fault)

    def found(self) -> Found:
        """What the catcher says of the broken library."""
        with self.how():
            return self.caught_by.look()

    def row(self, found: Found) -> dict[str, Any]:
        """A line of the table."""
        return {
            "name": self.name,
            "about": self.about,
            "caught_by": self.caught_by.label,
            "claimed": found.claimed,
            "audited": found.audited,
            "said": found.said,
        }


VARIANTS = (
    Variant(
        "noise of a mean on a sum",
        "The noise that a mean needs is added to the sum, before it is divided by the cohort.",
        faults.noise_of_the_mean,
        catchers.MODELS,
    ),
    Variant(
        "clip after noise",
        "A value gets its noise first and is clipped afterwards.",
        faults.clip_after_noise,
        catchers.MESSAGES,
    ),
    Variant(
        "one key for all clients",
        "All clients draw their noise from the same key.",
        faults.one_key_for_all_clients,
        catchers.MESSAGES,
    ),
    Variant(
        "divisor of who came",
        "A mean is divided by the clients that came, and not by the expected cohort.",
        faults.divided_by_who_came,
        catchers.COHORT,
    ),
    Variant(
        "weights by record counts",
        "Updates are multiplied by the client's number of records after the clip.",
        partial(faults.weights, share=1.0),
        catchers.MODELS,
    ),
    Variant(
        "weights of mean one",
        "Updates are weighted by record counts, with weights whose mean is one.",
        partial(faults.weights, share=0.5),  # the two clients of the golden round hold 3 and 1
        catchers.GOLDEN,
    ),
    Variant(
        "noise of a smaller radius",
        "AdaptDP-FedAvg clips at its cap, and takes the noise of the round's smaller radius.",
        faults.noise_of_a_smaller_radius,
        catchers.RADIUS,
    ),
    Variant(
        "replace-one as add-remove",
        "Replacing a client is charged with the radius, and not with twice the radius.",
        charges.replace_one_as_add_remove,
        catchers.MESSAGES,
    ),
    Variant(
        "one round for all",
        "A whole run is charged as one round.",
        charges.one_round_for_all,
        catchers.MODELS,
    ),
    Variant(
        "fixed batches as Poisson",
        "Batches of a fixed size are charged as if each record had a coin of its own.",
        charges.fixed_batches_as_poisson,
        catchers.BATCHES,
    ),
    Variant(
        "raw norm in a closure",
        "What a client makes of its noisy steps also uses the norm of its raw gradient.",
        charges.raw_norm_in_a_map,
        catchers.ERASURE_STEPS,
    ),
    Variant(
        "raw norm in a statistic",
        "A client sends the norm of its raw update as a statistic of its message.",
        charges.raw_norm_in_a_statistic,
        catchers.ERASURE_STATISTIC,
    ),
    Variant(
        "norms that underflow",
        "Gradients are squared as they are, so that the norms of tiny ones come out too small.",
        faults.underflowing_norms,
        catchers.EXTREME,
    ),
    Variant(
        "raw values in a state",
        "DP-SCAFFOLD renews a client's control variate from its raw gradient.",
        charges.raw_state,
        catchers.ERASURE_STATE,
    ),
    Variant(
        "a known seed",
        "The noise does not depend on the secret root key, so every run draws the same noise.",
        faults.a_known_seed,
        catchers.MODELS,
    ),
    Variant(
        "rounding above the bound",
        "The clip multiplies by C / |v| and leaves no room for rounding.",
        faults.naive_clip,
        catchers.BOUNDS,
    ),
    Variant(
        "quiet Gaussian",
        "Normal numbers have 0.6 of their standard deviation.",
        faults.quiet_normals,
        catchers.GAUSSIAN,
    ),
    Variant(
        "quiet rounded Gaussian",
        "The rounded Gaussian of deployments has half of its standard deviation.",
        faults.quiet_rounded_normals,
        catchers.ROUNDED,
    ),
    Variant(
        "no noise",
        "The noise is multiplied by 0.",
        faults.no_normals,
        catchers.ONE_RUN,
    ),
    Variant(
        "Laplace of variance one",
        "The scale of Laplace noise is taken for its standard deviation.",
        faults.laplace_of_variance_one,
        catchers.LAPLACE,
    ),
    Variant(
        "another cap coin",
        "PrivUnit draws the side of its cap with four times the eps0 that is charged.",
        faults.another_coin,
        catchers.PRIVUNIT,
    ),
    Variant(
        "PrivUnitG at half price",
        "A PrivUnitG message is charged with half of its epsilon.",
        charges.privunitg_at_half_price,
        catchers.PRIVUNITG,
    ),
    Variant(
        "noise on the first array",
        "Only the first array of a model gets noise.",
        faults.first_leaf_only,
        catchers.MESSAGES,
    ),
    Variant(
        "records amplified by the cohort",
        "Sampling of clients makes the price of a record smaller.",
        charges.cohort_for_everyone,
        catchers.SIBLINGS,
    ),
    Variant(
        "fixed cohorts amplified",
        "A cohort of fixed size makes the price smaller, although the others know who is left.",
        charges.cohort_for_everyone,
        catchers.OTHERS,
    ),
    Variant(
        "larger cohorts",
        "Clients take part with three times the probability that is charged.",
        charges.larger_cohorts,
        catchers.POISSON,
    ),
    Variant(
        "shares of all clients",
        "A share has the variance sigma^2 / n, although only some of the n clients are honest.",
        faults.shares_of_all,
        catchers.SHARES,
    ),
    Variant(
        "a joint release at half price",
        "A value and its squared norm are charged as the value alone.",
        charges.vector_alone,
        catchers.JOINT,
    ),
    Variant(
        "turns charged once",
        "Groups that take turns are charged once, although a client speaks twice.",
        charges.turns_charged_once,
        catchers.TURNS,
    ),
    Variant(
        "epochs charged once",
        "Shuffled epochs are charged once, although a record is used in four.",
        charges.epochs_charged_once,
        catchers.EPOCHS,
    ),
    Variant(
        "one step more",
        "A client takes one private step more than its release declares.",
        charges.one_step_more,
        catchers.TIMES,
    ),
    Variant(
        "clip by layer",
        "Each array of a model is clipped at the radius, and not all of them together.",
        faults.clip_by_layer,
        catchers.MESSAGES,
    ),
    Variant(
        "one noise for all rounds",
        "The keys do not depend on the round, so every round draws the same noise.",
        faults.one_key_for_all_rounds,
        catchers.KEYS,
    ),
    Variant(
        "undeclared fields",
        "A field of a message that has no release is sent as it is.",
        charges.undeclared_fields,
        catchers.FIELDS,
    ),
    Variant(
        "a prelude for free",
        "The private mean before round 0 is released without a charge.",
        charges.prelude_for_free,
        catchers.LEDGER,
    ),
)


def main() -> None:
    """Look at every variant, and write the table."""
    settings.register_profile("table", derandomize=True, deadline=None)
    settings.load_profile("table")
    rows = []
    for variant in VARIANTS:
        found = variant.found()
        sound = without(variant.caught_by.look)
        if not found.flagged or sound.flagged:
            sys.exit(f"{variant.name}: {found.said} Without the fault: {sound.said}")
        rows.append(variant.row(found))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"command": COMMAND, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
