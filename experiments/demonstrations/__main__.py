"""Run the demonstrations: ``python -m experiments.demonstrations [NAME ...]``.

Each writes its numbers and its command to ``results/demonstrations``, its picture to the page's
folder, and the page ``docs/explanation/attacks.md`` is written from what is stored. ``--page`` only
draws and writes again. With ``--data mnist`` (in TACIT_DATA) everything goes to a folder of its own
and the page stays as it is.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.demonstrations import (
    message_membership,
    model_membership,
    page,
    pictures,
    printed_images,
    printed_settings,
    reconstruction,
)
from experiments.demonstrations.records import Pool, pool
from tacit.cli import show

DEMONSTRATIONS: dict[str, Callable[[Pool], dict[str, Any]]] = {
    model_membership.NAME: model_membership.run,
    message_membership.NAME: message_membership.run,
    reconstruction.NAME: reconstruction.run,
    printed_settings.NAME: lambda _: printed_settings.run(),
    printed_images.NAME: printed_images.run,
}


def main() -> None:
    """Run what is asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(DEMONSTRATIONS))
    parser.add_argument("--data", default="digits", choices=("digits", "mnist"))
    parser.add_argument("--page", action="store_true", help="only pictures and page")
    given = parser.parse_args()
    for name in given.names:
        if name not in DEMONSTRATIONS:
            parser.error(f"there is no demonstration {name!r}.")
    ours = given.data == "digits"
    results = page.RESULTS if ours else page.RESULTS.with_name(f"demonstrations-{given.data}")
    drawn = page.PAGE.parent if ours else results
    results.mkdir(parents=True, exist_ok=True)
    images = pool(given.data)
    for name in given.names or DEMONSTRATIONS:
        begun = time.perf_counter()
        if not given.page:
            more = "" if ours else f" --data {given.data}"
            command = f"python -m experiments.demonstrations {name}{more}"
            found = {"command": command, **DEMONSTRATIONS[name](images)}
            _keep(results / f"{name}.json", found)
        path = pictures.draw(name, page.stored(name, results), drawn)
        show.sentence(f"{name}: {time.perf_counter() - begun:.0f} seconds, {path}.")
    if ours:
        show.sentence(f"Written: {page.write()}.")


def _keep(path: Path, found: dict[str, Any]) -> None:
    """One line for each row, so that long lists of pixels do not fill thousands of lines."""
    rows = ",\n  ".join(json.dumps(row) for row in found["rows"])
    rest = "".join(
        f' "{key}": {json.dumps(value)},\n' for key, value in found.items() if key != "rows"
    )
    path.write_text(f'{{\n{rest} "rows": [\n  {rows}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
