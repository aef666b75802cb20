"""Sessions of a secure sum in one process, with a server that may lie."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.secure_aggregation.collector import Collector
from tacit.secure_aggregation.party import Party
from tacit.secure_aggregation.statements import Context


def context(clients: int = 5, present: int = 4, numbers: int = 6, modulus: int = 32) -> Context:
    return Context("federation", "run", 3, "train", clients, present, modulus, ((numbers, 20),))


class Session:
    """All clients of one session, and an honest server beside them."""

    def __init__(self, about: Context, identities: list[Ed25519PrivateKey] | None = None) -> None:
        self.about = about
        self.identities = identities or [Ed25519PrivateKey.generate() for _ in range(about.clients)]
        self.signers: list[Ed25519PublicKey] = [key.public_key() for key in self.identities]
        self.parties = {
            i: Party(about, i, key, self.signers) for i, key in enumerate(self.identities)
        }
        self.server = Collector(about, self.signers)

    def until_masked(
        self,
        values: np.ndarray,
        *,
        without_keys: Iterable[int] = (),
        without_shares: Iterable[int] = (),
        without_values: Iterable[int] = (),
    ) -> dict[int, np.ndarray]:
        """Everything up to the masked numbers; some clients stop at some step."""
        alive = set(self.parties) - set(without_keys)
        for i in alive:
            self.server.add_keys(i, self.parties[i].keys())
        roster = self.server.roster()
        alive -= set(without_shares)
        for i in alive:
            self.server.add_shares(i, self.parties[i].share(roster))
        masked = {}
        for i in alive - set(without_values):
            self.parties[i].receive(self.server.shares_for(i))
            masked[i] = self.parties[i].mask(values[i])
            self.server.add_masked(i, masked[i])
        return masked

    def opened(self, *, silent: Iterable[int] = ()) -> np.ndarray:
        """The rest; ``silent`` clients sign and open nothing."""
        present = self.server.present()
        alive = present - set(silent)
        for i in alive:
            self.server.add_signature(i, self.parties[i].agree(present))
        signatures = self.server.signatures()
        for i in alive:
            self.server.add_opened(i, self.parties[i].open(signatures))
        return self.server.total()


def some_values(about: Context, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    reach = 2 ** (about.modulus - 4) // about.clients
    return rng.integers(-reach, reach, (about.clients, about.numbers))
