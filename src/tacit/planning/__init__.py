"""What a run will cost and what a budget is worth, before anything is computed."""

from tacit.planning.plan import Plan, calibrate, rounds_within

__all__ = ["Plan", "calibrate", "rounds_within"]
