"""The tables and figures of five papers, rerun as printed and at honest privacy budgets."""
