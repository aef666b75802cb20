"""Public records at the server, and what a model says of them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tacit.algorithms.prelude import Released
from tacit.data.federation import Records
from tacit.deployment.records import ready_records
from tacit.deployment.settings import Public
from tacit.simulation.devices import precision
from tacit.tasks.base import Params


class PublicTest:
    """Measures models on public records; they wait for a prelude's outcome if there is one."""

    def __init__(self, public: Public, records: Records) -> None:
        self._public, self._raw = public, records
        self._records = None if public.prelude else ready_records(public, records, None)

    def prepare(self, released: Released) -> None:
        """Make the records ready as the sites do."""
        self._records = ready_records(self._public, self._raw, released)

    def measured(self, params: Params) -> dict[str, float]:
        """Mean loss and the task's metrics."""
        if self._records is None:
            return {}
        task = self._public.plan.task
        with precision(self._public.dtype):
            records = {k: jnp.asarray(v) for k, v in self._records.items()}
            loss = float(jnp.mean(task.losses(params, records)))
            outputs = np.asarray(task.outputs(params, records))
        return {"loss": loss, **task.metrics(outputs, self._records)}
