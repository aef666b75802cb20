"""A server that attacks its sites over the real network: ``python dishonest_server.py FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tacit.deployment.server.processes import serve

HERE = Path(__file__).parent
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE / "dishonest"), str(HERE)])
serve(Path(sys.argv[1]), lambda progress: None)
