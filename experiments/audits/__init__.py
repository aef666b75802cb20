"""Audits of every mechanism and every method, with their results as data (``make audit``)."""
