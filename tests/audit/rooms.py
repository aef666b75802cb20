"""The folders of tests as places to import from, also outside of pytest."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOMS = ("accounting", "algorithms", "audit", "core", "tasks")

sys.path[:0] = [str(TESTS.parent), str(TESTS), *(str(TESTS / room) for room in ROOMS)]
