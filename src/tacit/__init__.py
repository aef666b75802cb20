"""Tacit: federated learning with differential privacy that is true."""
