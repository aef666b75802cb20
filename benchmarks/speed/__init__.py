"""The speed of private federated simulation against other simulators: ``make bench``."""
