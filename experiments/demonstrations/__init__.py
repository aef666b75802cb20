"""Attacks that people know, on what people run: membership and reconstruction, with pictures."""
