"""The server of a federation: it runs the rounds and stores the results."""
