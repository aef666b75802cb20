"""How the records of a federation are distributed over the devices.

Client i is on device i mod D, as its client number i // D. Each device holds the records of its
clients in one array, so a client is a slice of it. Clients of different sizes need no padding, and
memory does not grow with the cohort.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tacit.data.federation import Federation, Records
from tacit.phase import AT_ONCE, ClientData

AXIS = "devices"


class DeviceData(NamedTuple):
    """Per device: the records, and the start and the number of records of each client."""

    records: dict[str, Array]
    offsets: Array
    sizes: Array


def mesh_of(devices: list[jax.Device]) -> Mesh:
    """A one-dimensional mesh of the devices."""
    return Mesh(np.array(devices), (AXIS,))


def lay_out(federation: Federation, records: Records, mesh: Mesh) -> DeviceData:
    """Put the records of every client on its device; ``records`` are in the run's precision."""
    count = mesh.size
    per_device = -(-federation.clients // count)
    capacity = capacity_of(federation.sizes)
    offsets = np.zeros((count, per_device), np.int32)
    sizes = np.zeros((count, per_device), np.int32)
    rows: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    for device in range(count):
        mine = np.arange(device, federation.clients, count)
        sizes[device, : len(mine)] = federation.sizes[mine]
        offsets[device, : len(mine)] = np.concatenate([[0], np.cumsum(federation.sizes[mine])[:-1]])
        starts = federation.offsets[mine]
        rows.append(
            np.concatenate(
                [np.arange(s, s + n) for s, n in zip(starts, federation.sizes[mine], strict=True)]
                or [np.zeros(0, np.int64)]
            )
        )
    # A slice of `capacity` rows that starts at the last client must not exceed the array.
    longest = _round_number(max(len(r) for r in rows) + capacity)
    sharding = NamedSharding(mesh, PartitionSpec(AXIS))

    def place(column: np.ndarray[Any, Any]) -> Array:
        laid = np.zeros((count, longest, *column.shape[1:]), column.dtype)
        for device, mine in enumerate(rows):
            laid[device, : len(mine)] = column[mine]
        return jax.device_put(laid, sharding)

    return DeviceData(
        {name: place(np.asarray(column)) for name, column in records.items()},
        jax.device_put(offsets, sharding),
        jax.device_put(sizes, sharding),
    )


def capacity_of(sizes: npt.NDArray[np.integer[Any]]) -> int:
    """The rows of the largest client, rounded up if the clients differ in size.

    Then another random split usually has the same shapes and needs no compilation.
    """
    largest = int(sizes.max())
    return largest if int(sizes.min()) == largest else _round_number(largest)


def _round_number(count: int) -> int:
    """Round up to at most 15 times a power of two, by less than an eighth."""
    step = 2 ** max(0, count.bit_length() - 4)
    return -(-count // step) * step


def rows_at_once(sizes: npt.NDArray[np.integer[Any]]) -> int:
    """The chunk size that processes clients of these sizes with the fewest rows in total.

    Every chunk has a fixed cost, assumed to be a dozen rows. Clients of equal size are one chunk.
    """
    largest = min(capacity_of(sizes), AT_ONCE)
    choices = [largest, *(2**k for k in range(4, 11) if 2**k < largest)]
    costs = [int(np.sum(-(-sizes // rows))) * (rows + 12) for rows in choices]
    return choices[int(np.argmin(costs))]


def client_slice(data: DeviceData, client: Array, capacity: int, at_once: int) -> ClientData:
    """The rows of one client of this device."""
    start = data.offsets[client]
    records = {
        name: lax.dynamic_slice_in_dim(column, start, capacity)
        for name, column in data.records.items()
    }
    return ClientData(records, data.sizes[client], at_once)


def local_cohort(mask: Array, count: int) -> tuple[Array, Array]:
    """This device's clients in the cohort, listed first, and their number."""
    per_device = -(-mask.shape[0] // count)
    padded = jnp.zeros(per_device * count, bool).at[: mask.shape[0]].set(mask)
    mine = padded.reshape(per_device, count)[:, lax.axis_index(AXIS)]
    return jnp.nonzero(mine, size=per_device, fill_value=0)[0], jnp.sum(mine)
