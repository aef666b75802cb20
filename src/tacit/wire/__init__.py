"""What travels between clients and server: messages as bytes, never as pickled objects."""
