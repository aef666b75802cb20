"""Rounds of private federated simulation, timed against other simulators: ``make bench``."""
