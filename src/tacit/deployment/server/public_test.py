"""Public test records at the server, and metrics on them."""

from __future__ import annotations

from tacit.data.federation import Records
from tacit.deployment.records import after_prelude
from tacit.deployment.setup.settings import Public
from tacit.evaluation import Evaluator
from tacit.preludes.base import Released
from tacit.tasks.base import Params


class PublicTest:
    """Evaluates models on public records, after the prelude's result is known (if there is one)."""

    def __init__(self, public: Public, records: Records) -> None:
        self._public, self._raw = public, records
        self._records = None if public.prelude else records
        self._evaluate = Evaluator(public.plan.algorithm, public.plan.task, public.dtype)

    def prepare(self, released: Released) -> None:
        """Apply the result of the prelude, as the sites do."""
        self._records = after_prelude(self._public, self._raw, released)

    def measured(self, params: Params) -> dict[str, float]:
        """Mean loss and the task's metrics."""
        return {} if self._records is None else self._evaluate(params, self._records)
