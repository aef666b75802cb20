"""The user's own files: tables, the meaning of their columns, and a federation from them."""
