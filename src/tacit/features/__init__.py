"""Public feature maps, applied to each record before training; they use no private records.

``apply(federation, ["scattering", {"name": "projection", "dimensions": 128}])`` applies maps by
name to the records and the test set of a federation. A configuration lists the same names under
``[[features]]``. Every map states its assumption.
"""

from tacit.features.maps import MAPS, FeatureMap
from tacit.features.pipeline import Pipeline, apply, make_map

__all__ = ["MAPS", "FeatureMap", "Pipeline", "apply", "make_map"]
