"""A whole federation of real clients in one process: each its own object, bytes between them."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from tacit.algorithm import Algorithm
from tacit.data.federation import Federation
from tacit.population import Population
from tacit.precision import Precision, precision
from tacit.streams import Stream
from tacit.tasks.base import Params, Task
from tacit.wire.client import WireClient
from tacit.wire.holdings import Holdings
from tacit.wire.server import RoundReport, WireServer
from tacit.wire.shapes import RecordShapes


def record_shapes(federation: Federation, dtype: Precision) -> RecordShapes:
    """The public shape of one record."""
    return {
        name: jax.ShapeDtypeStruct(
            column.shape[1:],
            np.dtype(dtype)
            if column.dtype.kind == "f"
            else (np.dtype(np.int32) if column.dtype.itemsize > 4 else column.dtype),
        )
        for name, column in federation.records.items()
    }


class LocalFederation:
    """The message-passing engine with in-process clients; a seed makes both engines agree."""

    def __init__(
        self,
        algorithm: Algorithm,
        task: Task,
        federation: Federation,
        *,
        seed: int | None = None,
        dtype: Precision = "float32",
        holdings: Mapping[int, Holdings] | None = None,
    ) -> None:
        population = Population(tuple(int(n) for n in federation.sizes))
        with precision(dtype):
            stream = None if seed is None else Stream.seeded(seed)
        self.server = WireServer(
            algorithm,
            task,
            population,
            record_shapes(federation, dtype),
            stream=stream,
            dtype=dtype,
        )
        self.clients = [
            WireClient(
                algorithm,
                task,
                population,
                federation.client(index),
                index=index,
                stream=stream,
                dtype=dtype,
                holdings=(holdings or {}).get(index),
            )
            for index in range(federation.clients)
        ]

    def ask(self, requests: Mapping[int, bytes]) -> dict[int, bytes | None]:
        """Deliver the requests and collect the replies."""
        return {index: self.clients[index].answer(data) for index, data in requests.items()}

    def run(self, rounds: int) -> list[RoundReport]:
        """So many rounds, from round 0."""
        return [self.server.round(number, self.ask) for number in range(rounds)]

    @property
    def params(self) -> Params:
        """The model now."""
        return self.server.params
