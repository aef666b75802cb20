"""Formulas of the papers, as printed, to compare with."""
