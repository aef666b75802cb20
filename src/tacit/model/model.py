"""A trained model: what it says of new records, how good it is there, and one file to keep.

The file is a safetensors file with a description in its header: the task, the method's own step on
records, the meaning of the columns, the feature maps, and the guarantee. Loading it runs no code of
the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit import tree
from tacit.algorithm import Algorithm
from tacit.errors import DataError, TacitError
from tacit.evaluation import Evaluator
from tacit.model.inputs import Inputs
from tacit.precision import Precision
from tacit.tasks.base import Params, Task

if TYPE_CHECKING:
    from tacit.data.federation import Records


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Model:
    """A trained model with everything that is needed to use it on new records."""

    params: Params
    task: Task
    algorithm: Algorithm  # whose step on each record is repeated
    inputs: Inputs
    dtype: Precision = "float32"
    guarantee: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, data: Any) -> NDArray[Any]:
        """The answer for each record: its class, or a number in the units of the target.

        ``data`` is a table (a data frame, a dict of columns, the path of a file) if the model was
        trained on columns, and otherwise an array of records as in training.
        """
        return self.answers(self.outputs(data))

    def predict_proba(self, data: Any) -> NDArray[np.floating]:
        """The probability of each class, one row for each record."""
        found = self.task.probabilities(self.outputs(data))
        if found is None:
            raise TacitError(
                f"{type(self.task).__name__} gives no probabilities of classes: use predict."
            )
        return found

    def evaluate(self, data: Any) -> dict[str, float]:
        """Mean loss and metrics on records with their targets."""
        return self._evaluator()(self.params, self.inputs.records(read(data), targets=True))

    def outputs(self, data: Any) -> NDArray[Any]:
        """What the model says of each record: scores of classes, or a number."""
        records = self.inputs.records(read(data), targets=False)
        return self._evaluator().outputs(self.params, records)

    def encode(self, data: Any) -> NDArray[Any]:
        """The records as numbers: what an exported ONNX model takes."""
        return np.asarray(self.inputs.encoded(read(data), targets=False)["x"], np.float32)

    def answers(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """What people want to read of outputs."""
        shares = self.task.probabilities(outputs)
        if shares is None:
            return self.inputs.in_units(self.task.predictions(outputs))
        numbers = shares.argmax(axis=1)
        return numbers if self.labels is None else np.asarray(self.labels)[numbers]

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of the classes, where the training data named them."""
        return self.inputs.labels

    def save(self, path: str | Path) -> Path:
        """Write the model as one file."""
        from tacit.model.file import write_model

        return write_model(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, *, task: Task | None = None, networks: bool = False) -> Model:
        """The model of a file, or of a run's folder.

        A ``task`` of your own functions has to be given again. ``networks`` allows the file to name
        a Python function as a feature map; allow it only where you trust the file.
        """
        from tacit.model.file import read_model

        return read_model(Path(path), task=task, networks=networks)

    def _evaluator(self) -> Evaluator:
        return Evaluator(self.algorithm, self.task, self.dtype)

    def __repr__(self) -> str:
        return (
            f"Model({type(self.task).__name__}, {tree.size(self.params):,} numbers,"
            f" trained by {type(self.algorithm).__name__})"
        )


def read(data: Any) -> Any:
    """Arrays of an NPZ file or a table of another file, or the data as it is given."""
    if not isinstance(data, (str, Path)):
        return data
    from tacit.data.own_files.tables import ending, read_npz, read_table

    path = Path(data)
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    found: Records | Any = read_npz(path) if ending(path) == ".npz" else read_table(path)
    return found
