"""Datasets by name: the catalogue, the readers of original files, and generated problems."""
