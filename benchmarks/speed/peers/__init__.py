"""Other simulators doing the same work, each in an environment of its own."""
