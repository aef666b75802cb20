"""A server whose first model comes from a seed: ``python same_start.py SERVER_FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tacit.deployment.server.processes import serve

os.environ["PYTHONPATH"] = str(Path(__file__).parent / "seeded")
serve(Path(sys.argv[1]), lambda progress: None)
