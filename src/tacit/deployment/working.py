"""A site's process: its records and programs in memory, its node on the network."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from types import FrameType

from tacit.deployment.processes import forget, remember, working
from tacit.deployment.site import Site
from tacit.errors import TacitError


def work(folder: Path) -> None:
    """Answer for a site's folder until this process is told to end."""
    try:
        from tacit.deployment.node import FleetNode
    except ImportError:
        raise TacitError("a deployment needs Flower: install `tacit[deploy]`.") from None
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    if working(folder) is not None:
        raise TacitError(f"a site works in {folder} already: `tacit deploy stop` ends it.")
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for kind in (signal.SIGTERM, signal.SIGINT):
        signal.signal(kind, end)
    for noisy in ("httpx", "jax"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    site = Site(folder)
    try:
        remember(folder, os.getpid())
        log = logging.getLogger("tacit.site")
        if site.public.about.insecure:
            log.warning("nothing is encrypted or authenticated: this is for tests only")
        log.info("%s is ready", site.name)
        FleetNode(folder, site.public, site.answer).run(stop)
    finally:
        site.close()
        forget(folder)
