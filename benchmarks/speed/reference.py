"""A reference implementation of the works in plain NumPy and float64, with simple loops.

All fast implementations must agree with it. Cohorts and batches are given from outside and there is
no noise, so a round has one correct result. Gradients are written by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.speed.works import KERNEL, POOL, SIDE, Floats, Params, Work, data, start

Rows = Any  # an index of an array: a slice or record indices
Cohort = Callable[[int], Any]
Batch = Callable[[int, int, int], Rows]  # round, client, step


def everyone(work: Work) -> Cohort:
    """All clients in every round."""
    return lambda _: range(work.clients)


def all_records(round_: int, client: int, step: int) -> Rows:
    """The full batch."""
    del round_, client, step
    return slice(None)


def trained(
    work: Work,
    rounds: int,
    cohort: Cohort | None = None,
    batch: Batch = all_records,
    *,
    clips: bool = True,
) -> Params:
    """The model after ``rounds`` rounds."""
    x, y = data(work)
    params, chosen = start(work), cohort or everyone(work)
    if work.kind == "local":
        return _dynamic(work, rounds, x.astype(np.float64), y, params)
    for round_ in range(rounds):
        total = _map(np.zeros_like, params)
        for client in chosen(round_):
            mine = params
            for step in range(work.steps):
                rows = batch(round_, client, step)
                records = x[client][rows].astype(np.float64), y[client][rows]
                slope = _step(work, mine, *records)
                mine = _map(lambda p, g: p - work.lr * g, mine, slope)
            update = _map(np.subtract, mine, params)
            if clips and work.kind == "clients":
                update = _clipped(update, work.clip)
            total = _map(np.add, total, update)
        params = _map(lambda p, t: p + t / work.cohort, params, total)
    return params


def _step(work: Work, params: Params, x: Floats, y: Floats) -> Params:
    """The gradient of a local step: of the mean loss, or the mean of clipped ones."""
    if work.kind == "clients":
        return gradient(work, params, x, y)
    total = _map(np.zeros_like, params)
    for row in range(len(y)):
        one = gradient(work, params, x[row : row + 1], y[row : row + 1])
        total = _map(np.add, total, _clipped(one, work.clip))
    return _map(lambda t: t / len(y), total)


def gradient(work: Work, params: Params, x: Floats, y: Floats) -> Params:
    """The gradient of the mean loss over the records."""
    if work.model == "softmax":
        gap = _gap(x @ params["w"] + params["b"], y)
        return {"w": x.T @ gap, "b": gap.sum(axis=0)}
    if work.model == "logistic":
        gap = 1 / (1 + np.exp(-(x @ params["w"]))) - y
        return {"w": x.T @ gap / len(y)}
    return _cnn_gradient(params, x.reshape(-1, SIDE, SIDE, 1), y)


def loss(work: Work, params: Params, x: Floats, y: Floats) -> float:
    """The mean loss over the records; a test compares its derivative."""
    if work.model == "logistic":
        return float(np.mean(np.logaddexp(0, (1 - 2 * y) * (x @ params["w"]))))
    if work.model == "softmax":
        scores = x @ params["w"] + params["b"]
    else:
        scores, _ = _cnn_scores(params, x.reshape(-1, SIDE, SIDE, 1))
    own = np.take_along_axis(scores, y[:, None].astype(np.int64), axis=1)[:, 0]
    return float(np.mean(np.logaddexp.reduce(scores, axis=1) - own))


def _dynamic(work: Work, rounds: int, x: Floats, y: Floats, params: Params) -> Params:
    """Equation (7) of dynamic LDP (arXiv:2308.01139), without noise and without a prox."""
    n, gamma = work.clients, work.lr
    mean, messages, duals = params["w"], np.zeros((n, work.features)), np.zeros((n, work.features))
    for round_ in range(rounds):
        gaps = messages - mean
        if round_:
            duals = duals + gaps
        points = messages - gamma * gaps if round_ else np.broadcast_to(mean, messages.shape)
        messages = np.empty((n, work.features))
        for client in range(n):
            slope = _step(work, {"w": points[client]}, x[client], y[client])["w"]
            slope = slope + work.l2 * points[client]
            messages[client] = points[client] - gamma * (slope / n + duals[client])
        mean = messages.mean(axis=0)
    return {"w": mean}


def _cnn_scores(params: Params, images: Floats) -> tuple[Floats, list[Any]]:
    """The scores, and the values of each layer that the backward pass needs."""
    x, kept = images, list[Any]()
    for name in ("conv0", "conv1"):
        patches = _patches(x)
        values = np.tensordot(patches, params[name]["w"], axes=3) + params[name]["b"]
        pooled, place = _pooled(np.maximum(values, 0))
        kept.append((patches, values, place, x.shape))
        x = pooled
    flat = x.reshape(len(x), -1)
    hidden = flat @ params["dense0"]["w"] + params["dense0"]["b"]
    kept.append((flat, hidden, x.shape))
    return np.maximum(hidden, 0) @ params["dense1"]["w"] + params["dense1"]["b"], kept


def _cnn_gradient(params: Params, images: Floats, y: Floats) -> Params:
    scores, (*convolutions, (flat, hidden, shape)) = _cnn_scores(params, images)
    gap = _gap(scores, y)
    found = {"dense1": {"w": np.maximum(hidden, 0).T @ gap, "b": gap.sum(axis=0)}}
    back = (gap @ params["dense1"]["w"].T) * (hidden > 0)
    found["dense0"] = {"w": flat.T @ back, "b": back.sum(axis=0)}
    back = (back @ params["dense0"]["w"].T).reshape(shape)
    for name, (patches, values, place, before) in reversed(
        list(zip(("conv0", "conv1"), convolutions, strict=True))
    ):
        back = _unpooled(back, place, values.shape) * (values > 0)
        found[name] = {
            "w": np.tensordot(patches, back, axes=((0, 1, 2), (0, 1, 2))),
            "b": back.sum(axis=(0, 1, 2)),
        }
        back = _spread(back, params[name]["w"], before)
    return found


def _gap(scores: Floats, y: Floats) -> Floats:
    """The derivative of the mean cross-entropy with respect to the scores."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Floats = raised / raised.sum(axis=1, keepdims=True)
    found[np.arange(len(y)), y] -= 1
    return found / len(y)


def _patches(x: Floats) -> Floats:
    """(records, rows, columns, kernel, kernel, channels)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (KERNEL, KERNEL), axis=(1, 2))
    return np.moveaxis(windows, 3, 5)


def _spread(back: Floats, kernel: Floats, shape: tuple[int, ...]) -> Floats:
    """The gradient with respect to the input of a convolution."""
    found = np.zeros(shape)
    rows, columns = back.shape[1:3]
    for i in range(KERNEL):
        for j in range(KERNEL):
            found[:, i : i + rows, j : j + columns] += back @ kernel[i, j].T
    return found


def _pooled(x: Floats) -> tuple[Floats, Floats]:
    """The maximum of each window, and its index."""
    count, rows, columns, channels = x.shape
    rows, columns = rows // POOL, columns // POOL
    kept = x[:, : rows * POOL, : columns * POOL]
    windows = kept.reshape(count, rows, POOL, columns, POOL, channels)
    windows = windows.transpose(0, 1, 3, 5, 2, 4).reshape(count, rows, columns, channels, -1)
    place = windows.argmax(axis=-1)[..., None]
    return np.take_along_axis(windows, place, axis=-1)[..., 0], place


def _unpooled(back: Floats, place: Floats, shape: tuple[int, ...]) -> Floats:
    """Send the gradient of each window to the position of its maximum."""
    count, rows, columns, channels = back.shape
    windows = np.zeros((*back.shape, POOL * POOL))
    np.put_along_axis(windows, place, back[..., None], axis=-1)
    windows = windows.reshape(count, rows, columns, channels, POOL, POOL)
    found = np.zeros(shape)
    found[:, : rows * POOL, : columns * POOL] = windows.transpose(0, 1, 4, 2, 5, 3).reshape(
        count, rows * POOL, columns * POOL, channels
    )
    return found


def _clipped(value: Params, radius: float) -> Params:
    norm = np.sqrt(sum(float(np.sum(leaf**2)) for leaf in _leaves(value)))
    factor = min(1.0, radius / norm) if norm > 0 else 0.0
    return _map(lambda leaf: leaf * factor, value)


def _leaves(params: Params) -> list[Floats]:
    return [v for p in params.values() for v in (_leaves(p) if isinstance(p, dict) else [p])]


def _map(rule: Callable[..., Floats], first: Params, *rest: Params) -> Params:
    return {
        name: _map(rule, value, *(r[name] for r in rest))
        if isinstance(value, dict)
        else rule(value, *(r[name] for r in rest))
        for name, value in first.items()
    }
