"""The folders, settings and keys of a federation."""
