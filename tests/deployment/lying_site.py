"""A site that answers with one number everywhere: ``python lying_site.py FOLDER NUMBER``."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from adversary import filled, lying

from tacit.deployment.site.node import FleetNode
from tacit.deployment.site.site import Site


def main(folder: Path, number: float) -> None:
    site = Site(folder)
    lie = lying(filled(number), site.index)

    def answer(request: bytes) -> bytes:
        reply = lie(site.index, site.answer(request))
        assert reply is not None
        return reply

    FleetNode(folder, site.public, answer).run(threading.Event())


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
