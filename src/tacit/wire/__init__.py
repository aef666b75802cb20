"""Messages between clients and server, as plain bytes (never pickled objects)."""
