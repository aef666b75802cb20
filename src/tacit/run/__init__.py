"""Runs: from a configuration or Python objects to a trained model in a folder, inside a budget."""

from tacit.run.config import RunConfig
from tacit.run.loop import Progress, Settings
from tacit.run.result import Result
from tacit.run.run import Run
from tacit.run.training import train

__all__ = ["Progress", "Result", "Run", "RunConfig", "Settings", "train"]
