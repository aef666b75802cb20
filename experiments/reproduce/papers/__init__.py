"""The reproductions, one paper a file."""
