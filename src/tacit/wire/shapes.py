"""The shapes of everything that crosses the wire, from public knowledge alone.

Both sides work out what a message must look like by tracing the algorithm on empty records of the
public shape, so nothing about shapes or types is believed from the other side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import tree
from tacit.algorithm import Algorithm, ClientData, Moment, Phase
from tacit.boundary import leave_client
from tacit.tasks.base import Task
from tacit.tree import Tree

_ALONE = "value"
RecordShapes = Mapping[str, jax.ShapeDtypeStruct]  # one record, without a leading axis


def server_shapes(algorithm: Algorithm, task: Task) -> Any:
    """The server's state."""
    return jax.eval_shape(lambda: algorithm.init(task.init(jax.random.key(0))))


def sent_shapes(algorithm: Algorithm, task: Task, phase: Phase) -> Tree:
    """What the server sends in a phase."""
    return jax.eval_shape(phase.send, server_shapes(algorithm, task))


def reply_shapes(
    algorithm: Algorithm, task: Task, phase: Phase, record: RecordShapes
) -> dict[str, Tree]:
    """What a client answers in a phase: released fields and statistics."""
    rows = 8  # how many records a client holds does not show in its answer
    records = {k: jax.ShapeDtypeStruct((rows, *v.shape), v.dtype) for k, v in record.items()}

    def answer(sent: Tree, records: Mapping[str, Any]) -> dict[str, Tree]:
        params = task.init(jax.random.key(0))
        moment = Moment(jnp.zeros((), jnp.int32), jax.random.key(0))
        data = ClientData(dict(records), jnp.asarray(rows, jnp.int32))
        message, _ = phase.client(moment, algorithm.init_client(params), data, sent)
        released, stats = leave_client(phase, jax.random.key(0), message, moment.round)
        return {**released, **stats}

    return jax.eval_shape(answer, sent_shapes(algorithm, task, phase), records)


def to_fields(sent: Tree) -> dict[str, NDArray[np.generic]]:
    """What is sent as named arrays; one array alone has no path, and a field must have a name."""
    return {name or _ALONE: value for name, value in tree.to_named(sent).items()}


def from_fields(fields: Mapping[str, NDArray[np.generic]], like: Tree) -> Tree:
    """What was sent, in the shape of ``like``."""
    alone = isinstance(like, jax.ShapeDtypeStruct)
    return tree.from_named(
        {"" if alone and name == _ALONE else name: value for name, value in fields.items()}, like
    )
