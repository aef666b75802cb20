"""The image of a record, read from one message of its site.

The gradient of a dense layer is an outer product: the slope in each neuron times the image, and in
its bias the slope alone. So for one record the update of the weights over the update of the bias
is the image, exactly. The rank-one matrix that is nearest to the update is the most likely one if
there is normal noise; for no noise it is the same.

With more records a dishonest server chooses the model. All neurons measure the same number of an
image, here a random mixture of its pixels, and each has its own threshold. So the difference of two
neighbouring neurons is made of the records between their thresholds, and a record that is alone
there is read exactly (Fowl, Geiping, Czaja, Goldblum and Goldstein, 2022).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from experiments.demonstrations.rates import Floats
from experiments.demonstrations.records import Pool
from experiments.demonstrations.site import Fields, messages
from tacit.accounting import Budget, Guarantee
from tacit.algorithm import Algorithm
from tacit.algorithms import FedAvg, RecordDPFedAvg
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.tasks.base import Params, Task
from tacit.tasks.registry import make as make_task

NAME = "reconstruction"
HIDDEN, CHOSEN, TOGETHER, RADIUS, DELTA = 32, 128, 16, 1.0, 1e-5
RECORDS, SHOWN = 160, 10
ARMS: dict[str, float | None] = {
    "without privacy": None,
    "clipped, no noise": 0.0,
    "epsilon 8": 8.0,
    "epsilon 1": 1.0,
}


def method(task: Task, epsilon: float | None, records: int) -> tuple[Algorithm, Guarantee]:
    """One gradient step of a site, sent once: plain, clipped, or with noise for a budget."""
    algorithm: Algorithm = FedAvg(local_steps=1, local_lr=1.0)
    if epsilon is not None:
        algorithm = RecordDPFedAvg(local_steps=1, local_lr=1.0, clip=RADIUS, batches="full")
    plan = Plan.of(algorithm, task, Population((records,)), 1)
    if epsilon:
        plan = calibrate(plan, Budget(epsilon, DELTA))
    return plan.algorithm, plan.guarantee(DELTA, noise_from="seed")


def of_one(answer: Fields, pixels: int) -> Floats:
    """The image behind the nearest rank-one update of the first layer."""
    weights, bias = (answer[f"['update']['layer0']['{part}']"] for part in ("w", "b"))
    left, _, _ = np.linalg.svd(np.vstack([weights, bias[None]]).astype(np.float64))
    first = left[:, 0]
    found: Floats = first[:pixels] / (first[pixels] or 1e-30)
    return found


class Trap(NamedTuple):
    """A model whose neurons measure one mixture of the pixels, and their thresholds."""

    model: Params
    mixture: Floats
    edges: Floats


def trap(pool: Pool) -> Trap:
    """The thresholds are quantiles of public images."""
    draws = np.random.default_rng(3)
    mixture, slope = draws.normal(size=pool.pixels), 0.01 * draws.normal(size=10)
    values = pool.x[RECORDS:] @ mixture
    edges = np.quantile(values, np.linspace(0, 1, CHOSEN + 1)[:-1])
    edges[0] -= np.ptp(values)  # below every image
    model = {
        "layer0": {
            "w": jnp.asarray(np.tile(mixture[:, None], (1, CHOSEN)), jnp.float32),
            "b": jnp.asarray(-edges, jnp.float32),
        },
        "layer1": {
            "w": jnp.asarray(np.tile(slope, (CHOSEN, 1)), jnp.float32),  # one slope for all neurons
            "b": jnp.zeros(10, jnp.float32),
        },
    }
    return Trap(model, mixture, edges)


def of_many(answer: Fields, trapped: Trap, images: NDArray[Any]) -> Floats:
    """For each image, what is read between the two thresholds where its number lies."""
    weights, bias = (
        answer[f"['update']['layer0']['{part}']"].astype(np.float64) for part in ("w", "b")
    )
    above = np.column_stack([weights, np.zeros(len(weights))])
    both = above[:, :-1] - above[:, 1:], bias - np.append(bias[1:], 0)
    place = np.searchsorted(trapped.edges, images @ trapped.mixture) - 1
    slope = both[1][place]
    found: Floats = (both[0][:, place] / np.where(slope == 0, 1e-30, slope)).T
    return found


def similarity(images: NDArray[Any], found: Floats) -> Floats:
    """The correlation of each image with its reconstruction, over the pixels."""

    def centred(values: NDArray[Any]) -> Floats:
        moved = np.asarray(values, np.float64) - values.mean(axis=1, keepdims=True)
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        kept: Floats = moved / np.where(length == 0, 1, length)
        return kept

    return (centred(images) * centred(found)).sum(axis=1)


def attacked(
    pool: Pool, name: str, *, together: int = 1, records: int = RECORDS
) -> tuple[dict[str, Any], Floats]:
    """Read the images of many sites, each with so many records."""
    epsilon = ARMS[name]
    hidden = HIDDEN if together == 1 else CHOSEN
    task = make_task("mlp", shape=(pool.pixels,), classes=10, hidden=(hidden,), activation="relu")
    algorithm, guarantee = method(task, epsilon, together)
    trapped = trap(pool)
    model = task.init(jax.random.key(0)) if together == 1 else trapped.model
    found = np.empty((records, pool.pixels))
    for first in range(0, records, together):
        here = slice(first, first + together)
        held: dict[str, NDArray[Any]] = {"x": pool.x[here], "y": pool.y[here]}
        seed = 1000 * list(ARMS).index(name) + first
        (answer,) = messages(algorithm, task, held, model, seed=seed)
        found[here] = (
            of_one(answer, pool.pixels) if together == 1 else of_many(answer, trapped, held["x"])
        )
    alike = similarity(pool.x[:records], found)
    row = {
        "name": name,
        "records_of_the_site": together,
        "records": records,
        "sentence": guarantee.sentence(),
        "mean_correlation": float(alike.mean()),
        "median_correlation": float(np.median(alike)),
        "share_above_0.9": float((alike > 0.9).mean()),
        "images": shades(found[:SHOWN]),
    }
    return row, alike


def shades(images: NDArray[Any]) -> list[list[int]]:
    """Each image from its darkest to its brightest pixel, in 256 shades."""
    low, high = (f(images, axis=1, keepdims=True) for f in (np.min, np.max))
    scaled = 255 * (images - low) / np.where(high > low, high - low, 1)
    return [[int(v) for v in image] for image in scaled.round()]


def run(pool: Pool) -> dict[str, Any]:
    """All arms for sites of one record and of several, and a guess without any message."""
    guess = np.tile(pool.x[RECORDS:].mean(axis=0), (RECORDS, 1))
    return {
        "rows": [attacked(pool, name, together=n)[0] for n in (1, TOGETHER) for name in ARMS],
        "guess": float(similarity(pool.x[:RECORDS], guess).mean()),
        "originals": shades(pool.x[:SHOWN]),
        "side": pool.side,
    }


def table(found: dict[str, Any]) -> str:
    """One line for each arm, and the sentences."""
    lines = [
        "| the site holds | message | mean correlation | median | images with more than 0.9 |",
        "|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        n = row["records_of_the_site"]
        held = "1 record" if n == 1 else f"{n} records; the server chose the model"
        lines.append(
            f"| {held} | {row['name']} | {row['mean_correlation']:.3f} |"
            f" {row['median_correlation']:.3f} | {100 * row['share_above_0.9']:.0f} % |"
        )
    lines.append(f"| - | no message: the mean public image | {found['guess']:.3f} | - | - |")
    first = {r["name"]: r["sentence"] for r in found["rows"]}
    return (
        "\n".join(lines) + "\n\n" + "\n".join(f"- {name}: {told}" for name, told in first.items())
    )
