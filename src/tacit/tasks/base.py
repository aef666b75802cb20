"""A task: the parameters of a model and the loss of one record.

Everything private is done per record, so a task never sees two records at once: ``loss`` takes the
parameters and one record. ``penalty`` is a public regulariser: it holds no record, is added to the
mean loss and is never clipped or noised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

Params = Any  # a pytree of arrays
Record = Mapping[str, Array]  # one record: the columns of a Federation without the leading axis


class Task(ABC):
    """What is learnt. Concrete tasks are frozen dataclasses."""

    @abstractmethod
    def init(self, key: Array) -> Params:
        """Parameters to start from; no private record is used."""

    @abstractmethod
    def output(self, params: Params, record: Record) -> Array:
        """What the model says of one record (logits, a prediction); reads no target."""

    @abstractmethod
    def loss(self, params: Params, record: Record) -> Array:
        """The loss of one record, a scalar."""

    def penalty(self, params: Params) -> Array | float:
        """A public regulariser of the parameters, added to the mean loss."""
        del params
        return 0.0

    def losses(self, params: Params, records: Record) -> Array:
        """The losses of a batch of records, one each; override with a faster equal form."""
        return jax.vmap(self.loss, in_axes=(None, 0))(params, records)

    def outputs(self, params: Params, records: Record) -> Array:
        """What the model says of each record of a batch."""
        return jax.vmap(self.output, in_axes=(None, 0))(params, records)

    def metrics(
        self, outputs: NDArray[np.floating], records: Mapping[str, NDArray[np.generic]]
    ) -> dict[str, float]:
        """Quality on evaluation records besides the mean loss, for instance accuracy."""
        del outputs, records
        return {}
