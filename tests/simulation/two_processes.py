"""One process of a simulation that spans several: ``python two_processes.py COUNT ME PORT``.

Writes the model after a few rounds as JSON.
"""

import json
import sys

import jax
import numpy as np

count, me, port = (int(text) for text in sys.argv[1:])
if count > 1:
    jax.distributed.initialize(f"127.0.0.1:{port}", count, me)

from tacit.algorithms.scaffold_client import ClientDPScaffold  # noqa: E402
from tacit.data.federation import Federation  # noqa: E402
from tacit.simulation import Simulator  # noqa: E402
from tacit.tasks import make  # noqa: E402

rng = np.random.default_rng(0)
sizes = np.array([5, 3, 8, 4, 6])
records = {
    "x": rng.standard_normal((sizes.sum(), 6)),
    "y": rng.integers(0, 3, sizes.sum()).astype(np.int32),
}
names = tuple("abcde")
federation = Federation(records=records, sizes=sizes, names=names, classes=3)
task = make("multinomial", shape=(6,), classes=3)
algorithm = ClientDPScaffold(clip=0.5, noise=0.3, local_steps=3, local_lr=0.2)
simulator = Simulator(algorithm, task, federation, seed=3, dtype="float64")
state = simulator.advance(simulator.init(), 0, 4)
params = simulator.params(state)
scores = simulator.evaluate(params, records)
sys.stdout.write(json.dumps({"w": np.asarray(params["w"]).tolist(), "scores": scores}))
