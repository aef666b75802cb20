"""FedJAX: its federated averaging on one device. It has no differential privacy: no clip, no noise.

So it does less work than the other sides. The batch of a client is all its records, repeated for
the local steps; ``lax.conv`` as in FedJAX's own models.
"""

from __future__ import annotations

from typing import Any

import jax

# FedJAX 0.0.17 still uses this name, which JAX has removed.
jax.tree_map = jax.tree.map  # type: ignore[attr-defined]

import fedjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from fedjax.algorithms import fed_avg  # noqa: E402
from jax import Array, lax  # noqa: E402

from benchmarks.speed.protocol import Side, serve  # noqa: E402
from benchmarks.speed.usage import Meter  # noqa: E402
from benchmarks.speed.works import POOL, SIDE, Floats, Work, data, flat, start  # noqa: E402


class FedjaxSide(Side):
    """Rounds of ``fed_avg.federated_averaging``."""

    clips = False

    def __init__(self, work: Work) -> None:
        self.work = work
        x, y = data(work)
        if work.model == "cnn":
            x = x.reshape(*x.shape[:-1], SIDE, SIDE, 1)
        clients = fedjax.InMemoryFederatedData(
            {str(i): {"x": x[i], "y": y[i]} for i in range(work.clients)}
        )
        self._algorithm = fed_avg.federated_averaging(
            jax.grad(_loss),
            fedjax.optimizers.sgd(learning_rate=work.lr),
            fedjax.optimizers.sgd(learning_rate=1.0),
            fedjax.ShuffleRepeatBatchHParams(
                batch_size=work.records, num_epochs=None, num_steps=work.steps, seed=work.seed
            ),
        )
        self._sampler = fedjax.client_samplers.UniformGetClientSampler(
            clients, num_clients=work.cohort, seed=work.seed
        )
        self._state = self._algorithm.init(jax.tree.map(jnp.float32, start(work)))

    def run(self, rounds: int, meter: Meter) -> None:
        meter.start()
        for _ in range(rounds):
            self._state, _ = self._algorithm.apply(self._state, self._sampler.sample())
        jax.block_until_ready(self._state.params)
        meter.stop()

    def params(self) -> Floats:
        return flat(self._state.params)

    def about(self) -> dict[str, Any]:
        return {"backend": "jit", "privacy": "none", "devices": jax.device_count()}


def _loss(params: Any, batch: dict[str, Array], key: Array) -> Array:
    del key
    scores = _scores(params, batch["x"])
    logs = jax.nn.log_softmax(scores)
    return -jnp.mean(jnp.take_along_axis(logs, batch["y"][:, None], axis=1))


def _scores(params: Any, x: Array) -> Array:
    if "w" in params:
        return x @ params["w"] + params["b"]
    for name in ("conv0", "conv1"):
        layer = params[name]
        x = lax.conv_general_dilated(
            x, layer["w"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        window = (1, POOL, POOL, 1)
        x = lax.reduce_window(
            jax.nn.relu(x + layer["b"]), -jnp.inf, lax.max, window, window, "VALID"
        )
    x = x.reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ params["dense0"]["w"] + params["dense0"]["b"])
    return x @ params["dense1"]["w"] + params["dense1"]["b"]


if __name__ == "__main__":
    serve(FedjaxSide, ("fedjax", "jax", "numpy"))
