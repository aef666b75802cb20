"""The app that Flower starts at the server: Tacit's own loop on Flower's grid.

Flower's strategies are not used: they weight clients by record counts, which makes the sensitivity
wrong, and they cannot resume a run.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from tacit.deployment.server.coordinator import Coordinator
from tacit.deployment.server.processes import FOLDER, PROGRESS
from tacit.deployment.server.status import Status
from tacit.deployment.setup.private_files import own_files_only, write_private
from tacit.deployment.setup.settings import Public
from tacit.deployment.transport.flower_grid import FlowerTransport
from tacit.errors import TacitError


def main(grid: Grid, context: Context) -> None:
    """Run the federation of the folder that this process was started for."""
    del context
    own_files_only()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    folder = Path(os.environ[FOLDER])

    def tell(status: Status) -> None:
        write_private(folder / PROGRESS, json.dumps(asdict(status)).encode())

    public = Public.load(folder)
    try:
        Coordinator(folder, FlowerTransport(grid, folder, public), on_status=tell).run()
    except TacitError as error:
        tell(Status("stopped", 0, public.plan.rounds, said=str(error)))
        logging.getLogger("tacit.server").error("%s", error)
    except Exception as error:
        said = f"the server's app failed ({type(error).__name__}); see its log for details."
        tell(Status("stopped", 0, public.plan.rounds, said=said))
        raise


app = ServerApp()
app.main()(main)
