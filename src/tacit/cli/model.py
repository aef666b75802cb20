"""``tacit predict``, ``evaluate`` and ``export``: use a trained model."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show

if TYPE_CHECKING:
    from tacit.model import Model

Where = Annotated[
    Path, typer.Argument(help="The folder of a run, or a model file.", metavar="MODEL")
]
Data = Annotated[
    Path, typer.Argument(help="A CSV, Parquet or NPZ file with the columns of training.")
]
Networks = Annotated[
    bool, typer.Option("--networks", help="Allow a feature map that is a Python function.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def predict(
    model: Where,
    data: Data,
    out: Annotated[Path | None, typer.Option(help="The CSV file to write.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column of the data to repeat; give it often.")
    ] = None,
    networks: Networks = False,
    json: Json = False,
) -> None:
    """Predict the target of every record of a file."""
    found = _model(model, networks=networks)
    columns = _kept(data, keep or []) | _predictions(found, data)
    text = _csv(columns)
    if out is not None:
        from tacit.atomic_write import write_atomically

        write_atomically(out, text.encode())
    if json:
        shown: dict[str, Any] = {"records": len(next(iter(columns.values())))}
        show.as_json(shown | ({"columns": columns} if out is None else {"predictions": str(out)}))
    elif out is None:
        typer.echo(text, nl=False)
    else:
        count = len(next(iter(columns.values())))
        show.sentence(f"Predictions for {count:,} records are in {out}.")


def evaluate(model: Where, data: Data, networks: Networks = False, json: Json = False) -> None:
    """Measure a model on records with their targets. The numbers are not private: keep them."""
    measured = _model(model, networks=networks).evaluate(data)
    if json:
        show.as_json({"metrics": measured, "private": False})
        return
    show.table(("metric", "value"), [(k, f"{v:.4f}") for k, v in measured.items()])
    show.sentence(
        "These numbers are computed from the records without noise: do not publish them if the"
        " records are private."
    )


def export(
    model: Where,
    to: Annotated[str, typer.Option(help="onnx, torch, safetensors or npz.")],
    out: Annotated[
        Path | None, typer.Option(help="The file to write; beside the model if not given.")
    ] = None,
    networks: Networks = False,
    json: Json = False,
) -> None:
    """Write a model in another format."""
    from tacit.model.export import SUFFIXES
    from tacit.model.export import export as exported

    beside = model if model.is_dir() else model.parent
    path = out or beside / f"exported{SUFFIXES.get(to, '')}"
    written = exported(_model(model, networks=networks), to, path)
    if json:
        show.as_json({"exported": str(written), "format": to, "bytes": written.stat().st_size})
    else:
        show.sentence(f"The model is in {written}.")


def _model(path: Path, *, networks: bool) -> Model:
    from tacit.model import Model

    return Model.load(path, networks=networks)


def _kept(data: Path, names: list[str]) -> dict[str, list[Any]]:
    if not names:
        return {}
    from tacit.data.own_files.tables import read_table

    table = read_table(data)
    return {name: table.column(name).tolist() for name in names}


def _predictions(model: Model, data: Path) -> dict[str, list[Any]]:
    outputs = model.outputs(data)
    columns = {"prediction": model.answers(outputs).tolist()}
    shares = model.task.probabilities(outputs)
    if shares is not None:
        labels = model.labels or tuple(str(n) for n in range(shares.shape[1]))
        for number, label in enumerate(labels):
            columns[f"probability of {label}"] = [round(float(p), 6) for p in shares[:, number]]
    return columns


def _csv(columns: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
