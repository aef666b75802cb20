"""Tasks: models with the loss of one record, their metrics and proximal steps."""

from tacit.tasks.adapters import from_equinox, from_linen, from_nnx
from tacit.tasks.base import ByRecord, Params, Record, Ridge, Task
from tacit.tasks.classifier import Classifier, cross_entropy, softmax_loss, softmax_metrics
from tacit.tasks.cnn import CNN
from tacit.tasks.counts import Poisson
from tacit.tasks.functions import FunctionTask, from_functions
from tacit.tasks.linear import LeastSquares, LinearModel, Quadratic
from tacit.tasks.logistic import Logistic, Multinomial
from tacit.tasks.lstm import LSTM
from tacit.tasks.mlp import MLP
from tacit.tasks.prox import Ball, Box, NoProx, Prox, Simplex, WeightedL1Box
from tacit.tasks.random_features import RandomFeatures
from tacit.tasks.registry import make, names, options
from tacit.tasks.survival import CoxPiecewise, Weibull

__all__ = [
    "CNN",
    "LSTM",
    "MLP",
    "Ball",
    "Box",
    "ByRecord",
    "Classifier",
    "CoxPiecewise",
    "FunctionTask",
    "LeastSquares",
    "LinearModel",
    "Logistic",
    "Multinomial",
    "NoProx",
    "Params",
    "Poisson",
    "Prox",
    "Quadratic",
    "RandomFeatures",
    "Record",
    "Ridge",
    "Simplex",
    "Task",
    "Weibull",
    "WeightedL1Box",
    "cross_entropy",
    "from_equinox",
    "from_functions",
    "from_linen",
    "from_nnx",
    "make",
    "names",
    "options",
    "softmax_loss",
    "softmax_metrics",
]
