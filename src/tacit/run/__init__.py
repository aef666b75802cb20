"""Runs: from a configuration to a trained model in a folder, inside a budget."""

from tacit.run.config import RunConfig
from tacit.run.training import Progress, Result, train

__all__ = ["Progress", "Result", "RunConfig", "train"]
