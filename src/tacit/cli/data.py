"""``tacit data``: list, show, fetch and split datasets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show

if TYPE_CHECKING:
    from tacit.data import Dataset, Entry, Federation

app = typer.Typer(no_args_is_help=True, help="Datasets, and ways to split them over clients.")

Name = Annotated[str, typer.Argument(help="A dataset of `tacit data list`.", metavar="NAME")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Root = Annotated[
    Path | None, typer.Option(help="The data folder, instead of TACIT_DATA.", metavar="DIR")
]


@app.command("list")
def list_datasets(root: Root = None, json: Json = False) -> None:
    """List all datasets: sizes, clients, and whether they are on this machine."""
    from tacit.data import CATALOGUE, Store

    store = Store.default(root)
    lines = [_line(entry, entry.present(store)) for entry in CATALOGUE.values()]
    if json:
        show.as_json({"datasets": lines})
        return
    show.table(
        ("name", "here", "records", "test", "classes", "clients"),
        [
            (
                line["name"],
                "yes" if line["present"] else "no",
                _number(line["records"]),
                _number(line["test_records"]),
                _number(line["classes"]),
                _clients(line["natural_clients"], line["natural"]),
            )
            for line in lines
        ],
    )
    show.sentence(
        f"{sum(line['present'] for line in lines)} of {len(lines)} datasets are on this machine;"
        " `tacit data show NAME` tells where to get the others."
    )


@app.command("show")
def show_dataset(name: Name, root: Root = None, json: Json = False) -> None:
    """Show one dataset: source, licence, files, and label counts if it is on this machine."""
    from tacit.data import Store, describe

    entry = describe(name)
    store = Store.default(root)
    facts = _line(entry, entry.present(store)) | {
        "source": entry.source,
        "licence": entry.licence,
        "citation": entry.citation,
        "note": entry.note,
        "files": [
            {"path": file.path, "present": store.has(file), "sha256": file.sha256, "url": file.url}
            for file in entry.files
        ],
    }
    if facts["present"]:
        facts |= _contents(entry, root)
    if json:
        show.as_json(facts)
        return
    _print_facts(entry, facts, store)


@app.command("split")
def split_dataset(
    name: Name,
    split: Annotated[
        str, typer.Option(help="iid, dirichlet, shards, mixed, by-column or natural.")
    ] = "",
    clients: Annotated[int | None, typer.Option(help="Number of clients.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same clients.")] = 0,
    alpha: Annotated[float | None, typer.Option(help="dirichlet: a small alpha is uneven.")] = None,
    equal_sizes: Annotated[
        bool, typer.Option("--equal-sizes", help="dirichlet: clients of equal size.")
    ] = False,
    labels_per_client: Annotated[
        int | None, typer.Option(help="shards: maximum number of labels per client.")
    ] = None,
    iid_share: Annotated[
        float | None, typer.Option(help="mixed: the share that is split uniformly.")
    ] = None,
    column: Annotated[str, typer.Option(help="by-column, natural: the column to split by.")] = "",
    held_out: Annotated[
        float, typer.Option(help="Share of each client's records to test on.")
    ] = 0.0,
    held_out_clients: Annotated[float, typer.Option(help="Share of the clients to test on.")] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Plot the labels of the clients: .png, .svg or .pdf.", metavar="FILE"),
    ] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Split a dataset over clients and show their records and labels (for simulation only)."""
    from tacit.data import federate

    given = {"alpha": alpha, "labels_per_client": labels_per_client, "iid_share": iid_share}
    options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if equal_sizes:
        options["equal_sizes"] = True
    federation = federate(
        name,
        split=split,
        clients=clients,
        seed=seed,
        column=column,
        held_out=held_out,
        held_out_clients=held_out_clients,
        root=root,
        **options,
    )
    if out is not None:
        _draw(federation, out)
    if json:
        show.as_json(_who(federation) | {"seed": seed, "picture": str(out) if out else None})
        return
    _print_who(federation)
    if out is not None:
        show.sentence(f"The plot is in {out}.")


@app.command("fetch")
def fetch_dataset(name: Name, root: Root = None, json: Json = False) -> None:
    """Download the files of a dataset, check them and store them."""
    from tacit.data import describe
    from tacit.data.datasets.fetch import fetch

    results = fetch(describe(name), root=root)
    if json:
        files = [
            {"path": str(r.path), "downloaded": r.downloaded, "checked": r.checked} for r in results
        ]
        show.as_json({"name": name, "files": files})
        return
    new = sum(r.downloaded for r in results)
    unchecked = sum(r.downloaded and not r.checked for r in results)
    note = f" {unchecked} of them have no published checksum." if unchecked else ""
    show.sentence(
        f"{name} is complete: {new} files downloaded, {len(results) - new} already present, in "
        f"{results[0].path.parent}.{note}"
    )


def _line(entry: Entry, present: bool) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "kind": entry.kind,
        "present": present,
        "records": entry.records,
        "test_records": entry.test_records,
        "shape": list(entry.shape),
        "classes": entry.classes,
        "natural": entry.natural,
        "natural_clients": entry.natural_clients,
    }


def _contents(entry: Entry, root: Path | None) -> dict[str, Any]:
    """Facts from the data itself; a loaded file has passed its checksum."""
    import numpy as np

    from tacit.data import Problem, generate, load

    source: Dataset | Federation
    if entry.kind == "generated":
        made = generate(entry.name)
        source = made.federation if isinstance(made, Problem) else made
        groups = {"client": source.clients}
    else:
        source = load(entry.name, root=root)
        groups = {key: len(np.unique(values)) for key, values in source.groups.items()}
    facts: dict[str, Any] = {
        "columns": {key: list(values.shape[1:]) for key, values in source.records.items()},
        "groups": groups,
    }
    labels = source.records.get("y")
    if source.classes and labels is not None and labels.ndim == 1:
        facts["label_counts"] = np.bincount(
            labels.astype(np.int64), minlength=source.classes
        ).tolist()
    return facts


def _print_facts(entry: Entry, facts: dict[str, Any], store: Any) -> None:
    sizes = f"{entry.records:,} to train on, {entry.test_records:,} to test on"
    rows = [
        ("records", sizes if entry.records else "depends on the files"),
        ("shape", " x ".join(str(n) for n in entry.shape)),
        ("classes", _number(entry.classes) or "none: the target is a number"),
        ("source", entry.source),
        ("licence", entry.licence),
        ("cite", entry.citation),
    ]
    if entry.natural:
        rows.append(("clients", _clients(entry.natural_clients, entry.natural)))
    if entry.note:
        rows.append(("note", entry.note))
    if "label_counts" in facts:
        rows.append(("labels", " ".join(f"{n:,}" for n in facts["label_counts"])))
    if facts.get("groups"):
        rows.append(("groups", ", ".join(f"{k} ({n})" for k, n in facts["groups"].items())))
    show.sentence(f"{entry.name}: {entry.title}")
    for key, value in rows:
        show.sentence(f"  {key:<8} {value}")
    absent = [file for file in entry.files if not store.has(file)]
    if absent:
        show.sentence(f"Not on this machine: {store.missing(absent[0])}")
    elif not facts["present"]:
        way = (
            f"install {entry.package}"
            if entry.package
            else f"put the folder {entry.folder} into the data folder (TACIT_DATA)"
        )
        show.sentence(f"Not on this machine: {way}.")


def _who(federation: Federation) -> dict[str, Any]:
    from tacit.data.label_picture import label_counts

    counts = label_counts(federation)
    tested = len(next(iter(federation.test.values()))) if federation.test is not None else 0
    return {
        "title": federation.title,
        "clients": federation.clients,
        "records": int(federation.sizes.sum()),
        "test_records": tested,
        "test_from": federation.test_from,
        "names": list(federation.names),
        "sizes": federation.sizes.tolist(),
        "label_counts": counts.tolist() if counts.shape[1] > 1 else None,
    }


def _print_who(federation: Federation) -> None:
    import numpy as np

    from tacit.data.label_picture import label_counts

    counts = label_counts(federation)
    sizes = federation.sizes
    held = (counts > 0).sum(axis=1)
    shown = min(federation.clients, 10)
    by_label = 1 < counts.shape[1] <= 20
    width = len(str(counts.max()))
    rows = [
        (
            federation.names[i],
            f"{int(sizes[i]):,}",
            *([" ".join(f"{n:>{width}}" for n in counts[i])] if by_label else []),
        )
        for i in range(shown)
    ]
    head = ("client", "records", *(["records by label"] if by_label else []))
    show.table(head, rows, title=federation.title)
    if federation.clients > shown:
        show.sentence(f"... and {federation.clients - shown:,} more clients.")
    labels = f" and {held.min()} to {held.max()} labels" if counts.shape[1] > 1 else ""
    show.sentence(
        f"{federation.clients:,} clients hold {int(sizes.sum()):,} records: {sizes.min():,} to "
        f"{sizes.max():,} each (median {np.median(sizes):,.0f}){labels}."
    )


def _draw(federation: Federation, out: Path) -> None:
    from tacit.data.label_picture import who_holds_what
    from tacit.errors import DataError

    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise DataError(f"{out} is no picture name: use a name that ends in .png, .svg or .pdf.")
    try:
        who_holds_what(federation).savefig(out)
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror or error}).") from None


def _clients(count: int, by: str) -> str:
    return f"{_number(count)} by {by}".strip() if by else ""


def _number(value: int) -> str:
    return f"{value:,}" if value else ""
