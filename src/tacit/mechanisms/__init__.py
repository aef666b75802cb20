"""Mechanisms: they add the noise of a release and give its privacy event, from the same fields."""

from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.none import NoNoise
from tacit.mechanisms.privunit import PrivUnit
from tacit.mechanisms.privunitg import PrivUnitG

__all__ = ["Gaussian", "Laplace", "Mechanism", "NoNoise", "PrivUnit", "PrivUnitG"]
