"""A trained model that can be used: predictions, evaluation, one file, other formats."""

from tacit.model.model import Model

__all__ = ["Model"]
