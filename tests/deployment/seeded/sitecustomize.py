"""Read by every Python that ``same_start.py`` starts: streams come from one seed there."""

import os

if "TACIT_SERVER_FOLDER" in os.environ:
    import secrets

    secrets.randbits = lambda bits: 7
