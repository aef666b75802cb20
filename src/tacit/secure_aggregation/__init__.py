"""Secure aggregation: a server learns the sum of the clients' numbers, and nothing else."""
