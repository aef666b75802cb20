"""The shapes of all messages, computed from public information only.

Both sides compute the shape of a message by tracing the algorithm on empty records of the public
shape, so neither side has to trust the other about shapes or types.
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
    """The shapes of the server's state."""
    return jax.eval_shape(lambda: algorithm.init(task.init(jax.random.key(0))))


def sent_shapes(algorithm: Algorithm, task: Task, phase: Phase) -> Tree:
    """The shapes of what the server sends in a phase."""
    return jax.eval_shape(phase.send, server_shapes(algorithm, task))


def reply_shapes(
    algorithm: Algorithm, task: Task, phase: Phase, record: RecordShapes
) -> dict[str, Tree]:
    """The shapes of a client's reply in a phase: released fields and statistics."""
    rows = 8  # the shape of a reply does not depend on the number of records
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
    """The sent tree as named arrays; a single array has no path and gets a fixed name."""
    return {name or _ALONE: value for name, value in tree.to_named(sent).items()}


def from_fields(fields: Mapping[str, NDArray[np.generic]], like: Tree) -> Tree:
    """The sent tree, in the structure of ``like``."""
    alone = isinstance(like, jax.ShapeDtypeStruct)
    return tree.from_named(
        {"" if alone and name == _ALONE else name: value for name, value in fields.items()}, like
    )
