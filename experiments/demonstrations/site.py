"""A site as a dishonest server meets it: bytes in, bytes out.

The site is the client of real deployments, in memory. The server sends the model that it likes and
reads the fields of the reply. The noise is drawn from a seed, so that everyone finds the same
numbers; a deployed site draws it from the operating system.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.algorithm import Algorithm
from tacit.population import Population
from tacit.streams import Stream
from tacit.tasks.base import Params, Task
from tacit.wire.client import WireClient
from tacit.wire.codec import decode, encode
from tacit.wire.shapes import to_fields

Fields = dict[str, NDArray[Any]]


def messages(
    algorithm: Algorithm,
    task: Task,
    records: dict[str, NDArray[Any]],
    model: Params,
    *,
    rounds: int = 1,
    seed: int = 0,
) -> list[Fields]:
    """What one site answers in each round to a server that always sends the same model."""
    size = len(next(iter(records.values())))
    population = Population((size,))
    (phase,) = algorithm.phases(task, population)
    stream = Stream.seeded(seed)
    site = WireClient(algorithm, task, population, records, index=0, stream=stream)
    sent = to_fields(model)
    answers = []
    for round_ in range(rounds):
        reply = decode(site.answer(encode(phase.name, sent, {"round": round_})))
        if reply.kind != phase.name:
            raise site.last_error or AssertionError(reply.kind)
        answers.append({name: np.array(value) for name, value in reply.fields.items()})
    return answers
