"""A search for models and records that make one unit contribute more than its bound.

    python -m experiments.studies.adversarial --seconds 3600

``cases`` has every task, ``programs`` every way in which a contribution is bounded, ``material``
the models and records to begin with and how they change, ``search`` the search itself.
"""
