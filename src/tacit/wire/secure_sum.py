"""A phase as a secure sum: its grids, its context, and the order of its numbers.

Server and clients compute all of it themselves, from the algorithm and the public sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jax
import numpy as np
from numpy.typing import NDArray

from tacit import tree
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian
from tacit.mechanisms.rounded import summed_slack
from tacit.mechanisms.shares import Grid, Summands, grids
from tacit.phase import Phase
from tacit.population import Population
from tacit.release import Release
from tacit.secure_aggregation.statements import Context
from tacit.tree import Tree
from tacit.wire.codec import Message

KEYS, SHARES, AGREE, OPEN = "secure-keys", "secure-shares", "secure-agree", "secure-open"
STEPS: Final = (KEYS, SHARES, AGREE, OPEN)
SUM, CLIENTS, FROM, SEALED = "sum", "clients", "secure:from", "secure:shares"  # fields
_OTHER_FORM = "a message of a secure sum has another form."

Fields = Mapping[str, NDArray[Any]]


def phase_of(asked: Message) -> str:
    """The phase that a request belongs to."""
    return str(asked.meta.get("phase")) if asked.kind in STEPS else asked.kind


def without_shares(fields: Fields) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """The model of a request, and the encrypted shares beside it."""
    beside = {name: fields[name] for name in (FROM, SEALED) if name in fields}
    return {name: value for name, value in fields.items() if name not in beside}, beside


def grids_of(
    phase: Phase, round_: int, population: Population, shapes: Mapping[str, Tree]
) -> dict[str, Grid]:
    """The grid of every field, in the order in which their numbers are sent."""
    return grids(
        {
            name: _summands(release, round_, population, shapes[name])
            for name, release in sorted(phase.releases.items())
        }
    )


def _summands(release: Release, round_: int, population: Population, shape: Tree) -> Summands:
    if not isinstance(release.mechanism, Gaussian):
        raise TacitError("a secure sum between real clients needs Gaussian noise.")
    terms = max(population.sizes) if release.by_record else 1
    dtype = np.result_type(*(leaf.dtype for leaf in jax.tree.leaves(shape)))
    release.trust.check(population.clients)
    return Summands(
        numbers=tree.size(shape),
        radius=release.bound.radius,
        reach=release.summed_radius(population),
        level=release.mechanism.level(round_),
        clients=population.clients,
        carriers=release.trust.carriers(population.clients),
        slack=summed_slack(terms, dtype),
    )


def context_of(
    phase: Phase,
    round_: int,
    run: str,
    federation: str,
    population: Population,
    shapes: Mapping[str, Tree],
) -> tuple[Context, dict[str, Grid]]:
    """The session of a phase in a round, and the grids of its fields."""
    found = grids_of(phase, round_, population, shapes)
    trust = next(iter(phase.releases.values())).trust
    widths = tuple((tree.size(shapes[name]), grid.bits) for name, grid in found.items())
    context = Context(
        federation=federation,
        run=run,
        round=round_,
        phase=phase.name,
        clients=population.clients,
        present=trust.present(population.clients),
        modulus=next(iter(found.values())).modulus,
        widths=widths,
    )
    return context, found


def flat(value: Tree) -> NDArray[np.float64]:
    """The numbers of a field, one after the other."""
    return np.concatenate([np.ravel(np.asarray(v, np.float64)) for v in jax.tree.leaves(value)])


def shaped(numbers: NDArray[np.float64], like: Tree) -> Tree:
    """The numbers of a field in its shape."""
    leaves, structure = jax.tree.flatten(like)
    cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = zip(leaves, np.split(numbers, cuts), strict=True)
    return jax.tree.unflatten(structure, [n.reshape(v.shape).astype(v.dtype) for v, n in parts])


def rows_of(parts: Mapping[int, bytes], size: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Byte strings of one length by client, as two arrays for a message."""
    order = sorted(parts)
    rows = np.frombuffer(b"".join(parts[i] for i in order), np.uint8).reshape(len(order), size)
    return np.asarray(order, np.int32), rows


def parts_of(
    fields: Fields, name: str, size: int, most: int, by: str = CLIENTS
) -> dict[int, bytes]:
    """Byte strings of one size by client; a TacitError if the arrays are of another form."""
    clients, rows = clients_of(fields, most, by), numbers_of(fields, name)
    if rows.dtype != np.dtype(np.uint8) or rows.shape != (len(clients), size):
        raise TacitError(_OTHER_FORM)
    return {i: row.tobytes() for i, row in zip(clients, rows, strict=True)}


def clients_of(fields: Fields, most: int, by: str = CLIENTS) -> list[int]:
    """Distinct clients, at most so many."""
    found = numbers_of(fields, by)
    if found.dtype != np.dtype(np.int32) or found.ndim != 1 or len(found) > most:
        raise TacitError(_OTHER_FORM)
    listed = [int(i) for i in found]
    if len(set(listed)) != len(listed):
        raise TacitError(_OTHER_FORM)
    return listed


def numbers_of(fields: Fields, name: str) -> NDArray[Any]:
    """One field of a message."""
    if name not in fields:
        raise TacitError(f"a message of a secure sum has no {name}.")
    return fields[name]
