"""The reproductions, grouped by paper."""
