"""Only released fields cross the wire: with an erasing mechanism the bytes do not know the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from erasing import erased
from folders import LOCAL, config, make, site_folders

from tacit.deployment.server.coordinator import Coordinator
from tacit.deployment.transport.in_memory import InMemory
from tacit.release import Release
from tacit.streams import Stream

pytestmark = pytest.mark.usefixtures("quick_compilation")

METHODS: dict[str, dict[str, Any]] = {
    "record": LOCAL,
    "message": {"name": "dp-fedavg", "noise_at": "message", "relation": "replace-one"},
    "state": {"name": "dp-scaffold", "local_steps": 2, "batch_size": 3},
}


def sent(folder: Path, algorithm: dict[str, Any], seed: int) -> list[tuple[int, bytes]]:
    """Every byte that the sites of a whole run send, refusals and failures included."""
    public = make(folder, config(algorithm), seed=seed, evaluation=0.2)
    captured: list[tuple[int, bytes]] = []

    def tap(index: int, reply: bytes) -> bytes:
        captured.append((index, reply))
        return reply

    with jax.enable_x64(True):
        stream = Stream.seeded(9)
    sites = InMemory(site_folders(folder, public), stream=stream, exact=False, tap=tap)
    Coordinator(folder / "server", sites, stream=stream, exact=False).run()
    for bad in (b"", b"garbage" * 20):
        sites.ask({0: bad})
    sites.close()
    return captured


@pytest.mark.parametrize("method", METHODS)
def test_bytes_do_not_depend_on_the_records(method: str, tmp_path: Path) -> None:
    with erased():
        first, second = (sent(tmp_path / str(seed), METHODS[method], seed) for seed in (0, 1))
    assert len(first) == 3 * 5 + 2  # a join, three rounds and the accuracy of three sites
    # The server names each run anew; what sites say holds no name of a run.
    assert first == second


def test_the_test_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism that lets a little through is seen in the bytes."""
    from erasing import destroyed

    from tacit.wire import client as wire_client

    def leaky(
        self: Release, key: Any, value: Any, round_: Any, radius: Any = None, terms: int = 1
    ) -> Any:
        noise = destroyed(self, key, value, round_, radius)
        return jax.tree.map(lambda n, v: n + 1e-6 * v, noise, value)

    wire_client._worker.cache_clear()
    monkeypatch.setattr(Release, "noised", leaky)
    first, second = (sent(tmp_path / str(seed), LOCAL, seed) for seed in (0, 1))
    wire_client._worker.cache_clear()
    assert first != second
    assert [len(reply) for _, reply in first] == [len(reply) for _, reply in second]


def test_fifty_sites(tmp_path: Path) -> None:
    sizes = {f"site-{i:02d}": 8 for i in range(50)}
    public = make(tmp_path / "f", config(LOCAL), sizes=sizes)
    sites = InMemory(site_folders(tmp_path / "f", public))
    outcome = Coordinator(tmp_path / "f" / "server", sites).run()
    assert outcome.metrics["server/replies"] == 50
    spent = {round(site.guarantee().epsilon, 6) for site in sites.sites.values()}
    assert len(spent) == 1
    assert np.isfinite(outcome.params["w"]).all()
    sites.close()
