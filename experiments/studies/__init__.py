"""Studies beyond the papers: ``python -m experiments.studies.NAME`` writes ``results/studies``."""
