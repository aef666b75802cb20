"""Faults that are planted on purpose are flagged, and nothing is flagged without them."""

from __future__ import annotations

import pytest
from broken import VARIANTS, Variant
from catchers import without

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_fault_is_flagged(variant: Variant) -> None:
    found = variant.found()
    assert found.flagged, found.said
    sound = without(variant.caught_by.look)
    assert not sound.flagged, sound.said


def test_there_are_enough_faults() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS) >= 20
    audits = [v for v in VARIANTS if v.caught_by.label.endswith("audit")]
    assert len(audits) >= 15
