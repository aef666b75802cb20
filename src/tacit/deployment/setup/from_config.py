"""Make the settings of a federation from the configuration of a run.

If this machine has the data (a known dataset, or a folder of files that represent the sites), the
names, sizes and shapes come from the data. Otherwise the coordinator gives names and sizes, and the
shapes follow from the public description of the columns.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit import features
from tacit.algorithm import WithSecureSum
from tacit.algorithms import registry as algorithms
from tacit.data.config import from_config
from tacit.data.federation import Federation
from tacit.data.own_files.columns import Classes, Duration
from tacit.deployment.setup.folders import Wanted
from tacit.deployment.setup.settings import public_columns
from tacit.errors import ConfigError, DataError
from tacit.run.config import RunConfig

HOSPITALS = ("cleveland", "hungarian", "va")


def wanted(*, config: Path | None, sites: str | None, **options: Any) -> Wanted:
    """The federation that ``tacit deploy init`` has to make."""
    if config is None:
        if sites is not None:
            raise ConfigError("--sites needs a --config: without it the demo has its own sites.")
        return demo_federation(**options)
    run = RunConfig.load(config)
    if sites is not None:
        return _with_secure_sums(_described(run, _sizes(sites), options))
    if "name" in run.data:
        whole = features.apply(from_config(run.data, base=config.parent), run.features or ())
        return _with_secure_sums(_of_dataset(run, whole, options))
    raise ConfigError("the records are at the sites: list the sites with --sites name=records,...")


def _with_secure_sums(asked: Wanted) -> Wanted:
    """Noise in shares, unless the configuration says where it is drawn or the method cannot."""
    run = asked.config
    method, options = run.algorithm.name, run.algorithm.options
    kind = algorithms.find(method, options.get("protects"))
    known = algorithms.options(method, options.get("protects"))
    place = "noise_at" if "noise_at" in known else "trust"
    sampled = any(name.startswith("cohort_") for name in options)
    if (
        not issubclass(kind, WithSecureSum)
        or place in options
        or sampled
        or run.privacy == "none"
        or len(asked.sites) < 2
    ):
        return asked
    told = {"name": method, **options, place: "shares"}
    changed = RunConfig.from_dict({**run.as_dict(), "algorithm": told})
    return replace(asked, config=changed, secured=f'{place} = "shares"')


def demo_federation(rounds: int = 10, **options: Any) -> Wanted:
    """Three hospitals of Heart Disease, or three parts of the embedded breast cancer data."""
    try:
        return _demo(rounds, {"name": "heart-disease"}, HOSPITALS, options)
    except DataError:  # its files are not on this machine
        data = {"name": "breast-cancer", "split": "iid", "clients": 3, "seed": 0}
        return _demo(rounds, data, ("north", "east", "south"), options)


def _demo(
    rounds: int, data: dict[str, Any], names: tuple[str, ...], options: dict[str, Any]
) -> Wanted:
    run = RunConfig.from_dict(
        {
            "data": data,
            "task": {"name": "logistic"},
            "algorithm": {
                "name": "auto",
                "protects": "record",
                "noise_at": "shares",
            },
            "privacy": {"epsilon": 4.0, "delta": 1e-3},
            "train": {"rounds": rounds, "dtype": "float64"},
        }
    )
    whole = from_config(data)
    chosen = names if set(names) <= set(whole.names) else whole.names
    return _of_dataset(run, whole, options, dict(zip(names, chosen, strict=True)))


def _of_dataset(
    run: RunConfig,
    whole: Federation,
    options: dict[str, Any],
    clients: dict[str, str] | None = None,
) -> Wanted:
    """Sites that are clients of a known dataset, to rehearse on public data."""
    clients = clients or {name: name for name in whole.names}
    sizes = {site: int(whole.sizes[whole.names.index(c)]) for site, c in clients.items()}
    return Wanted(
        config=run,
        sites=sizes,
        records={name: _shape(column) for name, column in whole.records.items()},
        classes=whole.classes,
        clients=clients,
        public_test=whole.test is not None and whole.test_from == "public",
        **options,
    )


def _described(run: RunConfig, sizes: dict[str, int], options: dict[str, Any]) -> Wanted:
    """Sites whose records are not on this machine."""
    if run.features:
        raise ConfigError(
            "[[features]] cannot be used with --sites, because the shapes need a record. Apply the"
            " feature map to the records before, or name a dataset."
        )
    meaning = public_columns(run.data)
    if meaning is None:
        raise ConfigError(
            "--sites needs a description of the columns: write [data.columns.NAME] for each"
            " feature, and [data.target]."
        )
    records: dict[str, list[str | int]] = {"x": ["float", len(meaning.features)]}
    for key, target in meaning.targets.items():
        classes = isinstance(target.meaning, Classes)
        pair = isinstance(target.meaning, Duration)  # an event and a time
        records[key] = ["int32"] if classes else ["float", 2] if pair else ["float"]
    return Wanted(config=run, sites=sizes, records=records, classes=meaning.classes, **options)


def _shape(column: np.ndarray[Any, Any]) -> list[str | int]:
    return ["float" if column.dtype.kind == "f" else "int32", *column.shape[1:]]


def _sizes(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in text.split(","):
        name, sign, size = part.strip().partition("=")
        if not sign or not size.strip().isdigit():
            raise ConfigError(
                f"--sites has {part.strip()!r}: write name=records, for instance"
                " north=240,south=180."
            )
        found[name.strip()] = int(size)
    return found
