"""Tests of the deployment: cryptography comes with the extra ``deploy``."""

import pytest

pytest.importorskip("cryptography", reason="needs the extra deploy: pip install 'tacit[deploy]'")
