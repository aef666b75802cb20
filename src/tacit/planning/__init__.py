"""Plans: what a run will cost, and the noise that a budget asks for."""

from tacit.planning.plan import Plan, calibrate

__all__ = ["Plan", "calibrate"]
