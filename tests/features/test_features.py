"""Feature maps: each by its own law, learnt on generated images only, put together by name."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import features
from tacit.data.federation import Federation
from tacit.errors import ConfigError
from tacit.features import projection
from tacit.features.glyphs import glyphs
from tacit.features.maps import MAPS, as_images
from tacit.features.projection import discriminants, whitening
from tacit.features.scattering import (
    CHANNELS,
    GRID,
    ORIENTATIONS,
    filters,
    local_contrast,
    scattering,
)

RNG = np.random.default_rng(0)
IMAGES = RNG.random((6, 28, 28)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_and_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and few glyphs."""
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
    monkeypatch.setattr(projection, "_CLASSES", 12)
    monkeypatch.setattr(projection, "_INSTANCES", 6)


def test_scattering_has_seventeen_channels_on_a_grid() -> None:
    assert scattering(IMAGES).shape == (6, CHANNELS, GRID, GRID) == (6, 17, 8, 8)
    assert scattering(IMAGES[:, :, :20]).shape == (6, 17, 8, 8)
    assert scattering(IMAGES[:0]).shape == (0, 17, 8, 8)


def test_scattering_treats_every_record_by_itself() -> None:
    whole = scattering(IMAGES)
    np.testing.assert_allclose(whole[2:3], scattering(IMAGES[2:3]), atol=1e-6)


def test_waves_let_no_constant_through_and_keep_the_energy_bounded() -> None:
    waves, blur = filters(32)
    assert np.abs(waves[:, 0, 0]).max() < 1e-6
    assert 0.5 < np.max(np.sum(waves**2, axis=0)) < 3
    np.testing.assert_allclose(blur.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("turn", range(ORIENTATIONS))
def test_each_orientation_answers_to_its_own_waves(turn: int) -> None:
    angle = np.pi * turn / ORIENTATIONS
    y, x = np.mgrid[:32, :32]
    wave = np.cos(0.75 * np.pi * (x * np.cos(angle) + y * np.sin(angle))).astype(np.float32)
    middle = scattering(wave[None])[0, 1 : ORIENTATIONS + 1, 2:6, 2:6].mean(axis=(1, 2))
    assert int(np.argmax(middle)) == turn


def test_contrast_forgets_brightness_and_survives_darkness() -> None:
    bright, faint = (local_contrast(scattering(IMAGES * level)) for level in (1.0, 0.1))
    np.testing.assert_allclose(bright, faint, rtol=1e-3)
    dark = local_contrast(scattering(np.zeros((1, 28, 28), np.float32)))
    assert np.isfinite(dark).all()


def test_images_too_small_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 8 x 8"):
        scattering(np.zeros((1, 5, 5), np.float32))


def test_glyphs_are_pictures_that_differ_more_between_classes() -> None:
    images, labels = glyphs(8, 10, seed=1)
    assert images.shape == (80, 28, 28)
    assert images.min() >= 0
    assert images.max() <= 1
    assert (images.max(axis=(1, 2)) > 0.9).all()  # every one is drawn
    flat = images.reshape(8, 10, -1)
    centres = flat.mean(axis=1)
    within = np.mean((flat - centres[:, None]) ** 2)
    assert np.var(centres, axis=0).mean() > within / 5
    again, _ = glyphs(8, 10, seed=1)
    np.testing.assert_array_equal(images, again)
    assert list(np.bincount(labels)) == [10] * 8


def test_discriminants_find_what_tells_classes_apart() -> None:
    labels = np.repeat(np.arange(20), 10).astype(np.int32)
    centres = np.random.default_rng(2).standard_normal(20)
    x = np.random.default_rng(3).standard_normal((200, 5)).astype(np.float32)
    x[:, 3] += 5 * centres[labels]
    first = discriminants(x, labels).matrix[:, 0]
    assert np.abs(first[3]) > 5 * np.abs(np.delete(first, 3)).max()


def test_whitening_gives_variance_one_above_the_floor() -> None:
    mix = np.random.default_rng(4).standard_normal((4, 4))
    x = (np.random.default_rng(5).standard_normal((500, 4)) @ mix).astype(np.float32)
    learnt = whitening(x)
    found = np.cov((x - learnt.mean) @ learnt.matrix, rowvar=False)
    values = np.linalg.eigvalsh(np.cov(x, rowvar=False))[::-1]
    np.testing.assert_allclose(found, np.diag(values / (values + 0.03 * values.mean())), atol=1e-3)
    assert np.isfinite(whitening(np.zeros((5, 3), np.float32)).matrix).all()


def test_a_projection_is_learnt_once_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ["scattering", {"name": "projection", "dimensions": 5}]
    first = features.Pipeline.of(steps, (28, 28))(IMAGES)
    assert first.shape == (6, 5)
    assert len(list(tmp_path.rglob("*.npz"))) == 1

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("learnt a second time")

    monkeypatch.setattr(projection, "glyphs", refuse)
    np.testing.assert_array_equal(features.Pipeline.of(steps, (28, 28))(IMAGES), first)
    with pytest.raises(AssertionError, match="second"):
        features.Pipeline.of([{"name": "projection"}], (28, 28))  # after other maps: another one


def test_a_damaged_cache_is_learnt_again(tmp_path: Path) -> None:
    steps = ["scattering", {"name": "projection", "dimensions": 3}]
    first = features.Pipeline.of(steps, (28, 28))(IMAGES)
    next(tmp_path.rglob("*.npz")).write_bytes(b"PK torn")
    np.testing.assert_array_equal(features.Pipeline.of(steps, (28, 28))(IMAGES), first)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31))
def test_random_fourier_features_are_the_gaussian_kernel(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((8, 3)) * 0.7
    made = features.make_map({"name": "random-fourier", "dimensions": 6000, "seed": seed % 97})
    z = made.apply(x)
    gaps = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(z @ z.T, np.exp(-gaps / 2), atol=0.09)


def test_ranges_map_to_one_and_clip() -> None:
    made = features.make_map({"name": "ranges", "low": [0.0, -1.0], "high": [10.0, 1.0]})
    found = made.apply(np.array([[5.0, 0.0], [20.0, -7.0]]))
    np.testing.assert_allclose(found, [[0, 0], [1, -1]], atol=1e-6)
    with pytest.raises(ConfigError, match="every high above"):
        features.make_map({"name": "ranges", "low": 1.0}).apply(np.zeros((1, 2)))


def test_standard_numbers_are_not_put_on_an_edge() -> None:
    made = features.make_map({"name": "standard", "mean": 0.5, "scale": [0.25, 2.0]})
    np.testing.assert_allclose(made.apply(np.array([[1.0, -3.5]])), [[2, -2]], atol=1e-6)
    for scale in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="every scale above"):
            features.make_map({"name": "standard", "scale": scale}).apply(np.zeros((1, 2)))


def test_powers_keep_signs() -> None:
    made = features.make_map({"name": "power"})
    np.testing.assert_allclose(made.apply(np.array([[4.0, -9.0, 0.0]])), [[2, -3, 0]], atol=1e-6)
    for exponent in (0.0, -0.5, 2.0):
        with pytest.raises(ConfigError, match="above 0, at most 1"):
            features.make_map({"name": "power", "exponent": exponent}).apply(np.ones((1, 2)))


def doubled(x: np.ndarray) -> np.ndarray:
    """Stands for a frozen network."""
    return 2.0 * np.asarray(x, np.float32).reshape(len(x), -1)


def broken(x: np.ndarray) -> np.ndarray:
    """Loses a record."""
    return doubled(x)[1:]


def test_a_frozen_network_is_a_map() -> None:
    made = features.make_map({"name": "network", "path": f"{__name__}:doubled"})
    np.testing.assert_array_equal(made.apply(IMAGES), 2 * IMAGES.reshape(6, -1))
    for path, word in (
        (f"{__name__}:broken", "one row of finite"),
        (f"{__name__}:missing", "cannot be found"),
        ("numpy", "cannot be found"),
    ):
        with pytest.raises(ConfigError, match=word):
            features.make_map({"name": "network", "path": path}).apply(IMAGES)


def test_a_federation_and_its_test_set_go_through_the_same_maps() -> None:
    records = {"x": IMAGES.reshape(6, -1), "y": np.arange(6) % 2}
    data = Federation(
        records=records, sizes=np.array([4, 2]), names=("a", "b"), test=records, classes=2
    )
    done = features.apply(data, ["scattering", "centre", "unit"])
    assert done.records["x"].shape == (6, 17 * 64)
    np.testing.assert_array_equal(done.records["x"], done.test["x"])  # type: ignore[index]
    np.testing.assert_allclose(np.linalg.norm(done.records["x"], axis=1), 1, atol=1e-5)
    assert features.apply(data, []) is data


def test_mistakes_are_one_sentence() -> None:
    for step, words in (
        ("scatering", "there is no feature map 'scatering'"),
        ({"name": "projection", "dimension": 3}, "no option 'dimension'"),
        ({"name": "projection", "kind": "ica"}, "kind"),
        ({"name": "network"}, "needs path"),
        ({"dimensions": 3}, "there is no feature map"),
    ):
        with pytest.raises(ConfigError, match=words):
            features.make_map(step)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not square images"):
        features.Pipeline.of(["scattering"], (30,))(np.zeros((1, 30)))


def test_every_map_says_what_it_assumes() -> None:
    for name, kind in MAPS.items():
        assert kind.assumes, name
        assert kind.__doc__, name
        assert all(f.kw_only for f in fields(kind)), name  # type: ignore[arg-type]
    said = features.Pipeline.of(["scattering", "unit"], (28, 28)).assumptions
    assert [line.split(":")[0] for line in said] == ["scattering", "unit"]


def test_colours_become_gray() -> None:
    colours = RNG.random((2, 8, 8, 3)).astype(np.float32)
    np.testing.assert_allclose(as_images(colours), colours.mean(axis=3), rtol=1e-6)
