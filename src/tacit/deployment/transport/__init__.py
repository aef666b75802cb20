"""Transports between the server and its sites: Flower, or calls within one process."""
