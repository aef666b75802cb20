"""Public feature maps: what a record becomes before training, without a look at private records.

``apply(federation, ["scattering", {"name": "projection", "dimensions": 128}])`` sends the records
of a federation, and its test set, through maps by name; a configuration lists the same names under
``[[features]]``. Every map says what it assumes.
"""

from tacit.features.maps import MAPS, FeatureMap
from tacit.features.pipeline import Pipeline, apply, make_map

__all__ = ["MAPS", "FeatureMap", "Pipeline", "apply", "make_map"]
