"""Further studies: ``python -m experiments.studies.NAME`` writes to ``results/studies``."""
