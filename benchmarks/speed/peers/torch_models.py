"""The models of the works in PyTorch, and conversion from and to the common layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.speed.works import FILTERS, HIDDEN, KERNEL, POOL, SIDE, Floats, Work, flat, start


def make_model(work: Work) -> nn.Module:
    """The initial model of the work."""
    model = _softmax(work) if work.model == "softmax" else _cnn(work)
    load(model, start(work))
    return model


def tensors(x: Floats, y: Floats, work: Work) -> tuple[torch.Tensor, torch.Tensor]:
    """Records in PyTorch's layout: channels first, labels as long integers."""
    features = torch.from_numpy(x)
    if work.model == "cnn":
        features = features.reshape(*x.shape[:-1], 1, SIDE, SIDE)
    return features, torch.from_numpy(y.astype(np.int64))


def load(model: nn.Module, params: dict[str, Any]) -> None:
    """Put parameters of the common layout into a model."""
    layers = [layer for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    parts = [params] if "w" in params else [params[name] for name in sorted(params)]
    with torch.no_grad():
        for layer, part in zip(layers, parts, strict=True):
            layer.weight.copy_(torch.from_numpy(_to_torch(layer, part["w"])))
            layer.bias.copy_(torch.from_numpy(part["b"]))


def vector(model: nn.Module) -> Floats:
    """A model as one vector in the common layout."""
    parts = {}
    for number, layer in enumerate(model.modules()):
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            weight = layer.weight.detach().numpy()
            parts[f"{number:03}"] = {
                "w": _from_torch(layer, weight),
                "b": layer.bias.detach().numpy(),
            }
    return flat(parts)


def _softmax(work: Work) -> nn.Module:
    return nn.Linear(work.features, work.classes)


def _cnn(work: Work) -> nn.Module:
    side = ((SIDE - KERNEL + 1) // POOL - KERNEL + 1) // POOL
    return nn.Sequential(
        nn.Conv2d(1, FILTERS[0], KERNEL),
        nn.ReLU(),
        nn.MaxPool2d(POOL),
        nn.Conv2d(FILTERS[0], FILTERS[1], KERNEL),
        nn.ReLU(),
        nn.MaxPool2d(POOL),
        nn.Flatten(),
        nn.Linear(side * side * FILTERS[1], HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, work.classes),
    )


def _from_pixels(layer: nn.Module) -> bool:
    """Whether a dense layer reads an image: its inputs are then ordered by channel first."""
    return isinstance(layer, nn.Linear) and layer.out_features == HIDDEN


def _to_torch(layer: nn.Module, weight: Floats) -> Floats:
    if isinstance(layer, nn.Conv2d):
        return np.ascontiguousarray(weight.transpose(3, 2, 0, 1))
    if _from_pixels(layer):
        side = int((weight.shape[0] / FILTERS[1]) ** 0.5)
        weight = weight.reshape(side, side, FILTERS[1], -1).transpose(2, 0, 1, 3)
        weight = weight.reshape(side * side * FILTERS[1], -1)
    return np.ascontiguousarray(weight.T)


def _from_torch(layer: nn.Module, weight: Floats) -> Floats:
    if isinstance(layer, nn.Conv2d):
        return weight.transpose(2, 3, 1, 0)
    weight = weight.T
    if _from_pixels(layer):
        side = int((weight.shape[0] / FILTERS[1]) ** 0.5)
        weight = weight.reshape(FILTERS[1], side, side, -1).transpose(1, 2, 0, 3)
        weight = weight.reshape(side * side * FILTERS[1], -1)
    return weight
