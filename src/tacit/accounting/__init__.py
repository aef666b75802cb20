"""Privacy accounting: events, accountants, calibration and the ledger."""

from tacit.accounting.accountants import epsilon_of, every_epsilon, guarantee, tightest
from tacit.accounting.calibration import Part, calibrate, calibrate_split
from tacit.accounting.events import (
    DpEvent,
    Everyone,
    FixedSize,
    Poisson,
    PureDpEvent,
    SamplingScheme,
    ShuffledEpochs,
    compose,
    gaussian_event,
    laplace_event,
    pure_event,
    repeated,
    sensitivity,
)
from tacit.accounting.gaussian import gdp_delta, gdp_eps, gdp_mu, joint_mu_squared
from tacit.accounting.guarantee import Budget, Guarantee, Relation, Unit, rounded_up
from tacit.accounting.ledger import Ledger

__all__ = [
    "Budget",
    "DpEvent",
    "Everyone",
    "FixedSize",
    "Guarantee",
    "Ledger",
    "Part",
    "Poisson",
    "PureDpEvent",
    "Relation",
    "SamplingScheme",
    "ShuffledEpochs",
    "Unit",
    "calibrate",
    "calibrate_split",
    "compose",
    "epsilon_of",
    "every_epsilon",
    "gaussian_event",
    "gdp_delta",
    "gdp_eps",
    "gdp_mu",
    "guarantee",
    "joint_mu_squared",
    "laplace_event",
    "pure_event",
    "repeated",
    "rounded_up",
    "sensitivity",
    "tightest",
]
