"""``python -m tacit`` is the command ``tacit``."""

from tacit.cli import main

main()
