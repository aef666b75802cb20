"""The server of a federation: it leads the rounds and keeps the run."""
