"""Runs: from a configuration to a trained model in a folder, inside a budget."""

from tacit.run.config import RunConfig
from tacit.run.loop import Progress
from tacit.run.training import Result, train

__all__ = ["Progress", "Result", "RunConfig", "train"]
