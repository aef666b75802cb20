"""Rules that use public numbers only: noise per round, number of rounds, and step size."""
