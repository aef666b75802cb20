"""The tables and figures of five papers, beside what they are worth at honest privacy."""
