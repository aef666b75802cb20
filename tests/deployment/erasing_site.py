"""A site's process whose mechanisms destroy their input and whose every reply is written down.

python erasing_site.py SITE_FOLDER CAPTURE_FILE
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import jax
from erasing import destroyed

from tacit.deployment.site.node import FleetNode
from tacit.deployment.site.site import Site
from tacit.release import Release
from tacit.streams import Stream


def main(folder: Path, capture: Path) -> None:
    Release.noised = destroyed  # type: ignore[method-assign, assignment]
    with jax.enable_x64(True):
        stream = Stream.seeded(9)
    site = Site(folder, stream=stream, exact=False)

    def answer(request: bytes) -> bytes:
        reply = site.answer(request)
        with capture.open("ab") as file:
            file.write(len(reply).to_bytes(8, "little") + reply)
        return reply

    FleetNode(folder, site.public, answer).run(threading.Event())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
