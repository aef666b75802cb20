"""Turn the floating-point constants of a traced program into inputs.

The step size, radius and noise of a method become constants in the program that JAX traces.
``Trace`` separates the constants from the structure of the program (everything else), and runs the
program with constants given from outside, including loops and branches. A few plain numbers stay
inside: the compiler simplifies with them, and methods rarely differ in them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.core.primitives import (
    closed_call_p,
    cond_p,
    custom_jvp_call_p,
    custom_vjp_call_p,
    jit_p,
    scan_p,
    while_p,
)

Values = Sequence[Any]

_PLAIN = (0.0, 0.5, 1.0, 2.0, -1.0, float("inf"), float("-inf"))

_CALLS = {jit_p: "jaxpr", closed_call_p: "call_jaxpr", custom_jvp_call_p: "call_jaxpr"}
_CALLS[custom_vjp_call_p] = "call_jaxpr"
_LOOPS = {while_p: ("cond_jaxpr", "body_jaxpr"), scan_p: ("jaxpr",), cond_p: ("branches",)}
_OPEN = {primitive: (name,) for primitive, name in _CALLS.items()} | _LOOPS
_FUNCTIONS = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")  # derivative rules, already applied


class Trace:
    """A traced program whose constants are separated from its structure."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.closed = closed
        self.constants: list[Any] = []
        self._places: dict[int, int] = {}  # identity of a literal -> index of its constant
        self._closed = False  # inside a step that runs unchanged, with its constants
        self.shape: Hashable = self._shape(closed.jaxpr, closed.consts)

    def run(self, args: Sequence[Any], values: Values) -> list[Any]:
        """The results of the program, with ``values`` as its constants."""
        return self._run(self.closed.jaxpr, self.closed.consts, args, values)

    def _shape(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> Hashable:
        names: dict[Var, int] = {}

        def named(variables: Sequence[Any]) -> tuple[str, ...]:
            for variable in variables:
                names[variable] = len(names)
            return tuple(str(variable.aval) for variable in variables)

        def atom(value: Any) -> Hashable:
            return self._literal(value) if isinstance(value, Literal) else names[value]

        kept = tuple(self._constant(c, c.dtype, f"{c.dtype}{c.shape}") for c in consts)
        opening = named(jaxpr.constvars), named(jaxpr.invars)
        steps = []
        for step in jaxpr.eqns:
            read = tuple(atom(v) for v in step.invars)
            steps.append((str(step.primitive), read, self._options(step), named(step.outvars)))
        return kept, opening, tuple(steps), tuple(atom(v) for v in jaxpr.outvars)

    def _literal(self, literal: Literal) -> Hashable:
        return self._constant(literal, getattr(literal.aval, "dtype", None), str(literal.aval))

    def _constant(self, holder: Any, dtype: Any, kind: str) -> Hashable:
        """A constant by its index, or by its value if it stays inside the program."""
        value = holder.val if isinstance(holder, Literal) else holder
        inside = self._closed or dtype is None or not jnp.issubdtype(dtype, np.floating)
        if inside or _is_plain(value):
            return kind, np.asarray(value).tobytes() if dtype is not None else str(value)
        if id(holder) not in self._places:
            self._places[id(holder)] = len(self.constants)
            self.constants.append(np.asarray(value, dtype))
        return kind, self._places[id(holder)]

    def _options(self, step: JaxprEqn) -> Hashable:
        """The other options of a step; programs among them are described by their structure."""
        inside = _OPEN.get(step.primitive, ())
        found: list[tuple[str, Hashable]] = []
        for name, value in sorted(step.params.items()):
            if name in inside:
                parts = value if isinstance(value, tuple) else (value,)
                found.append((name, tuple(self._shape(p.jaxpr, p.consts) for p in parts)))
            elif name not in _FUNCTIONS:
                found.append((name, self._exactly(value)))
        return tuple(found)

    def _exactly(self, value: Any) -> Hashable:
        """The full value of an option: programs that differ in it must not share a compilation."""
        if isinstance(value, (tuple, list)):
            return tuple(self._exactly(part) for part in value)
        if isinstance(value, (np.ndarray, jax.Array)):
            return str(value.dtype), value.shape, np.asarray(value).tobytes()
        if isinstance(value, Jaxpr):
            value = ClosedJaxpr(value, ())
        if not isinstance(value, ClosedJaxpr):
            return str(value)
        before, self._closed = self._closed, True
        shape = self._shape(value.jaxpr, value.consts)
        self._closed = before
        return shape

    def _run(
        self, jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], values: Values
    ) -> list[Any]:
        found: dict[Var, Any] = {}

        def held(holder: Any) -> Any:
            place = self._places.get(id(holder))
            if place is not None:
                return values[place]
            return holder.val if isinstance(holder, Literal) else holder

        def read(value: Any) -> Any:
            return held(value) if isinstance(value, Literal) else found[value]

        found.update(zip(jaxpr.constvars, map(held, consts), strict=True))
        found.update(zip(jaxpr.invars, args, strict=True))
        for step in jaxpr.eqns:
            results = self._step(step, [read(v) for v in step.invars], values)
            found.update(zip(step.outvars, results, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _step(self, step: JaxprEqn, args: list[Any], values: Values) -> Sequence[Any]:
        options = step.params
        if step.primitive in _CALLS:
            inner = options[_CALLS[step.primitive]]
            return self._run(inner.jaxpr, inner.consts, args, values)
        if step.primitive is while_p:
            return self._while(options, args, values)
        if step.primitive is scan_p:
            return self._scan(options, args, values)
        if step.primitive is cond_p:
            branches = [self._function(branch, values) for branch in options["branches"]]
            return lax.switch(args[0], branches, *args[1:])
        with step.ctx.manager:
            results = step.primitive.bind(*args, **step.primitive.get_bind_params(options))
        return results if step.primitive.multiple_results else [results]

    def _function(self, inner: ClosedJaxpr, values: Values) -> Callable[..., list[Any]]:
        return lambda *args: self._run(inner.jaxpr, inner.consts, args, values)

    def _while(self, options: Any, args: list[Any], values: Values) -> Sequence[Any]:
        first, second = options["cond_nconsts"], options["body_nconsts"]
        asks = self._function(options["cond_jaxpr"], values)
        goes = self._function(options["body_jaxpr"], values)
        for_asking, for_going = args[:first], args[first : first + second]

        def ask(carry: list[Any]) -> Any:
            return asks(*for_asking, *carry)[0]

        def go(carry: list[Any]) -> list[Any]:
            moved = goes(*for_going, *carry)
            still = ask(carry)
            if not still.ndim:
                return moved
            # Batched loops: those that have finished keep their values.
            return [
                jnp.where(still.reshape(still.shape + (1,) * (new.ndim - still.ndim)), new, old)
                for new, old in zip(moved, carry, strict=True)
            ]

        return lax.while_loop(lambda carry: jnp.any(ask(carry)), go, args[first + second :])

    def _scan(self, options: Any, args: list[Any], values: Values) -> Sequence[Any]:
        first, second = options["num_consts"], options["num_carry"]
        goes = self._function(options["jaxpr"], values)
        fixed, carry, rows = args[:first], args[first : first + second], args[first + second :]

        def body(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            results = goes(*fixed, *carry, *row)
            return results[:second], results[second:]

        carry, stacked = lax.scan(
            body,
            carry,
            rows,
            length=options["length"],
            reverse=options["reverse"],
            unroll=options["unroll"],
        )
        return [*carry, *stacked]


def _is_plain(value: Any) -> bool:
    return np.ndim(value) == 0 and (float(value) in _PLAIN or np.isnan(value))


def traced(function: Callable[..., Any], *args: Any) -> tuple[Trace, Any]:
    """The trace of a function of these arguments, and the structure of its result."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    return Trace(closed), shape
