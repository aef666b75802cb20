"""Formulas of the papers, as printed, for comparison."""
