"""Compiled programs, shared by all methods that differ only in their numbers.

Compilation takes seconds, and a search over step sizes, radii and noise levels would compile for
every value. Here such numbers are inputs of the program, so a program compiled for one value (in
this process, or cached on disk by an earlier one) is used for all values.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tacit.simulation.constants import Trace, traced

_MOST = 64  # programs kept in memory

_known: OrderedDict[Hashable, Callable[..., Any]] = OrderedDict()


class Program:
    """A function over the devices of a mesh, compiled when it is first called."""

    def __init__(
        self,
        function: Callable[..., Any],
        mesh: Mesh,
        in_specs: tuple[PartitionSpec, ...],
        out_specs: Any,
        donated: tuple[int, ...] = (),
    ) -> None:
        self._function, self._mesh, self._donated = function, mesh, donated
        self._in_specs, self._out_specs = in_specs, out_specs
        self._run: partial[Any] | None = None

    def __call__(self, *args: Any) -> Any:
        """The result of the function."""
        if self._run is None:
            self._run = self._shared(args)
        return self._run(*args)

    def _shared(self, args: tuple[Any, ...]) -> partial[Any]:
        """The compiled program for this structure, with the constants of this function."""
        trace, results = self._trace(args)
        key = (
            *(trace.shape, jax.tree.structure((args, results)), tuple(self._mesh.devices.flat)),
            *(self._in_specs, str(self._out_specs), self._donated),
        )
        if key not in _known:
            _known[key] = self._compiled(trace, jax.tree.structure(results))
        _known.move_to_end(key)
        while len(_known) > _MOST:
            _known.popitem(last=False)
        everywhere = NamedSharding(self._mesh, PartitionSpec())
        constants = [jax.device_put(jnp.asarray(c), everywhere) for c in trace.constants]
        return partial(_known[key], constants)

    def _trace(self, args: tuple[Any, ...]) -> tuple[Trace, Any]:
        """The function as one device sees it, traced once."""
        found: list[tuple[Trace, Any]] = []

        def look(*local: Any) -> Any:
            found.append(traced(self._function, *local))
            return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), found[-1][1])

        jax.eval_shape(self._over_devices(look, self._in_specs), *args)
        return found[-1]

    def _compiled(self, trace: Trace, structure: Any) -> Callable[..., Any]:
        """The traced function with its constants as the first argument."""

        def body(constants: list[Any], *local: Any) -> Any:
            found = trace.run(jax.tree.leaves(local), constants)
            return jax.tree.unflatten(structure, found)

        whole = self._over_devices(body, (PartitionSpec(), *self._in_specs))
        return jax.jit(whole, donate_argnums=tuple(n + 1 for n in self._donated))

    def _over_devices(
        self, function: Callable[..., Any], in_specs: tuple[PartitionSpec, ...]
    ) -> Callable[..., Any]:
        return jax.shard_map(
            function,
            mesh=self._mesh,
            in_specs=in_specs,
            out_specs=self._out_specs,
            check_vma=False,
        )
