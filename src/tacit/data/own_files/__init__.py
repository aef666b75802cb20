"""The user's own files: tables, what their columns mean, and a federation made of them."""
