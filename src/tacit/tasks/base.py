"""A task: the parameters of a model and the loss of one record.

Everything private is done per record, so a task never sees two records at once: ``loss`` takes the
parameters and one record. ``penalty`` is a public regulariser: it holds no record, is added to the
mean loss and is never clipped or noised.

Concrete tasks are frozen dataclasses of plain numbers and tuples: they hash, so a compiled function
can take one as a static argument. Arrays are made inside methods, in the precision that JAX is set
to (``jax_enable_x64``), and records are cast to the precision of the parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import ConfigError

Params = Any  # a pytree of arrays
Record = Mapping[str, Array]  # one record: the columns of a Federation without the leading axis
HostRecords = Mapping[str, NDArray[np.generic]]  # many records, in the memory of the host
Transform = Callable[[HostRecords], dict[str, NDArray[np.generic]]]


class ByRecord(NamedTuple):
    """The gradients of single records, each a length and a direction.

    ``norms`` are their norms, infinite where a gradient is not finite. ``combined`` gives the sum
    of their directions with a finite length each. For any model and any record, a contribution is
    no longer than its length, up to a few roundings: a gradient that is 0 or not finite has no
    direction, adds nothing and spoils nothing. ``tacit.tasks.unit`` makes such pairs.
    """

    norms: Array
    combined: Callable[[Array], Params]


class Task(ABC):
    """What is learnt. Concrete tasks are frozen dataclasses."""

    score_scale: ClassVar[float] = 1.0  # how far noise may move a score and do little harm
    log_odds: ClassVar[bool] = False  # the scores are log-odds of labels, the bias their shift

    @classmethod
    def for_data(cls, shape: tuple[int, ...], classes: int, **options: Any) -> Self:
        """The task for records whose ``x`` has this shape; ``classes`` is 0 for regression."""
        del shape, classes
        return cls(**options)

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

    def unfrozen(self) -> tuple[Task, Transform] | None:
        """The task that is left when records have passed a frozen layer once, and that passage.

        The parameters are the same. A simulation uses it, since it sees the same records again and
        again.
        """
        return None

    def losses(self, params: Params, records: Record) -> Array:
        """The losses of a batch of records, one each; override with a faster equal form."""
        return jax.vmap(self.loss, in_axes=(None, 0))(params, records)

    def outputs(self, params: Params, records: Record) -> Array:
        """What the model says of each record of a batch."""
        return jax.vmap(self.output, in_axes=(None, 0))(params, records)

    def sq_norms(self, params: Params, records: Record) -> Array | None:
        """The squared norm of each record's gradient of ``loss``, or ``None``: take ``vmap(grad)``.

        The penalty is public and not part of it. Squares may leave the range of floats: nothing is
        bounded by them.
        """
        known = self.by_record(params, records)
        return None if known is None else jnp.square(known.norms)

    def by_record(self, params: Params, records: Record) -> ByRecord | None:
        """The gradients of single records of ``loss``, or ``None``: take ``vmap(grad)``.

        Many models know them without forming them.
        """
        del params, records
        return None

    def constants(self, feature_norm: float) -> tuple[float, float] | None:
        """Strong convexity and smoothness (mu, L) of any mean loss plus penalty, or ``None``.

        Valid for every data set whose records obey ``||x|| <= feature_norm``: a public bound,
        enforced on the features, never their measured maximum.
        """
        del feature_norm
        return None

    def probabilities(self, outputs: NDArray[np.floating]) -> NDArray[np.floating] | None:
        """The probability of each class for each record, where the model gives one."""
        del outputs
        return None

    def predictions(self, outputs: NDArray[np.floating]) -> NDArray[np.floating]:
        """The number that is predicted for each record, where there are no classes."""
        return np.asarray(outputs)

    def metrics(self, outputs: NDArray[np.floating], records: HostRecords) -> dict[str, float]:
        """Quality on evaluation records besides the mean loss, for instance accuracy.

        A metric that the records do not define (AUC with one class) is left out.
        """
        del outputs, records
        return {}


@dataclass(frozen=True, kw_only=True)
class Ridge(Task):
    """A task with the public penalty ``l2/2 ||params||^2`` over all parameters, bias included.

    The bias is penalised too, so that ``l2`` is exactly the strong convexity of a convex task.
    """

    l2: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.l2) and self.l2 >= 0):
            raise ConfigError(f"l2 is {self.l2}: give a number of at least 0.")

    def penalty(self, params: Params) -> Array | float:
        """Half of l2 times the squared norm of the parameters."""
        if self.l2 == 0:
            return 0.0
        return 0.5 * self.l2 * sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params))


def width(shape: tuple[int, ...]) -> int:
    """How many numbers a record's ``x`` of this shape holds."""
    return int(np.prod(shape, dtype=np.int64))


def flat(record: Record, like: Array) -> Array:
    """The features of one record as a vector in the precision of ``like``."""
    return jnp.ravel(jnp.asarray(record["x"])).astype(like.dtype)


def flat_rows(records: Record, like: Array) -> Array:
    """The features of a batch of records, one row each, in the precision of ``like``."""
    x = jnp.asarray(records["x"])
    return x.reshape(x.shape[0], -1).astype(like.dtype)


def require_positive(**numbers: int | float) -> None:
    """Refuse sizes and scales that are not finite numbers above 0."""
    for name, number in numbers.items():
        if not (np.isfinite(number) and number > 0):
            raise ConfigError(f"{name} is {number}: give a number above 0.")
