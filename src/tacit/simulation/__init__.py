"""The simulator: many clients in one process, compiled, on all cores."""

from tacit.simulation.engine import RunState, Simulator

__all__ = ["RunState", "Simulator"]
