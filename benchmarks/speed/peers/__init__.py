"""Other simulators with the same work, each in its own environment."""
