"""Splits of records over clients, and held-out test records."""
