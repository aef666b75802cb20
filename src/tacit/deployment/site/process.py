"""The process of a site: its records and compiled programs in memory, its node on the network."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from types import FrameType

from tacit.deployment.site.site import STOPPED, Site
from tacit.deployment.transport.process_groups import forget, remember, working
from tacit.errors import TacitError


def work(folder: Path) -> None:
    """Answer requests for the folder of a site until this process is told to end."""
    try:
        from tacit.deployment.site.node import FleetNode
    except ImportError:
        raise TacitError("a deployment needs Flower: install `tacit-fl[deploy]`.") from None
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    if working(folder) is not None:
        raise TacitError(f"a site is already running in {folder}: `tacit deploy stop` stops it.")
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
            log.warning("no encryption and no authentication: this is for tests only")
        log.info("%s is ready", site.name)

        def answer(request: bytes) -> bytes:
            reply = site.answer(request)
            if site.stopped:
                stop.set()
            return reply

        FleetNode(folder, site.public, answer).run(stop)
        if site.stopped:
            raise TacitError(
                f"{site.name} stopped itself after an error; see {site.folder / 'state' / STOPPED}."
                " Nothing more is charged until that file is removed."
            )
    finally:
        site.close()
        forget(folder)
