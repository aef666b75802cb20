"""The configuration: mistakes are one sentence, and what is written can be read again."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import ConfigError
from tacit.run.config import RunConfig, as_toml, changed, read_toml

VALID: dict[str, Any] = {
    "data": {"name": "digits"},
    "task": {"name": "multinomial", "l2": 0.1},
    "privacy": {"epsilon": 2.0, "delta": 1e-5},
    "algorithm": {"name": "dp-fedavg", "clip": 0.5},
    "train": {"rounds": 3},
}

MISTAKES: list[tuple[str, str]] = [
    ("trian.rounds=3", "no key 'trian': did you mean 'train'?"),
    ("train.round=3", "no key 'train.round': did you mean 'rounds'?"),
    ("privacy.epsilom=3", "no key 'privacy.epsilom': did you mean 'epsilon'?"),
    ("train.rounds=2.5", "[train.rounds] (2.5) is not usable: it should be a valid integer."),
    ("train.rounds='3'", "[train.rounds] ('3') is not usable: it should be a valid integer."),
    ("train.rounds=true", "[train.rounds] (True) is not usable"),
    ("train.rounds=0", "give at least 1"),
    ("train.eval_every=-1", "give at least 1"),
    ("train.seed=-1", "from 0 to 2147483647"),
    ("train.seed=99999999999999999999", "from 0 to 2147483647"),
    ("train.dtype='half'", "it should be 'float32' or 'float64'"),
    ("train=5", "train is 5: write a table [train]."),
    ("task='mlp'", "task is 'mlp': write a table [task]."),
    ("data=1", "data is 1: write a table [data]."),
    ("privacy='some'", "privacy is 'some': write a table [privacy] or privacy = 'none'."),
    ("privacy={}", "give epsilon and delta, or noise and delta, or privacy = 'none'"),
    ("privacy={epsilon = 1.0}", "give delta: an epsilon means nothing without it"),
    ("privacy.epsilon=0", "epsilon is 0.0; give a positive number"),
    ("privacy.epsilon=-1.0", "epsilon is -1.0; give a positive number"),
    ("privacy.epsilon=inf", "epsilon is inf; give a positive number"),
    ("privacy.epsilon=nan", "epsilon is nan; give a positive number"),
    ("privacy.epsilon='2'", "[privacy.epsilon] ('2') is not usable"),
    ("privacy.delta=1", "delta is 1.0; give a number from 0 to below 1"),
    ("privacy.delta=1.5", "delta is 1.5"),
    ("privacy.noise=0", "noise is 0.0; give a positive number, or privacy = 'none'"),
    ("privacy.noise=nan", "noise is nan"),
    ("algorithm.name=5", "[algorithm.name] (5) is not usable"),
]


@pytest.mark.parametrize(("change", "sentence"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_one_sentence(change: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_dict(changed(VALID, [change]))
    text = str(caught.value)
    assert sentence in text
    assert "\n" not in text
    assert text.endswith((".", "?"))
    assert "PrivacyConfig" not in text


@pytest.mark.parametrize("section", ["data", "task", "privacy", "algorithm"])
def test_a_missing_section_is_named(section: str) -> None:
    values = {k: v for k, v in VALID.items() if k != section}
    with pytest.raises(ConfigError, match=re.escape(f"needs '{section}': add it.")):
        RunConfig.from_dict(values)


@pytest.mark.parametrize("change", ["nothing", "=3", ""])
def test_a_change_has_a_key_and_a_value(change: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form"):
        changed(VALID, [change])


def test_changes_are_toml_or_text() -> None:
    values = changed(
        VALID,
        ["train.rounds=7", "task.name=mlp", "task.hidden=[8, 4]", "privacy=none", "data.a.b=1"],
    )
    assert values["train"] == {"rounds": 7}
    assert values["task"] == {"name": "mlp", "l2": 0.1, "hidden": [8, 4]}
    assert values["privacy"] == "none"
    assert values["data"] == {"name": "digits", "a": {"b": 1}}
    assert VALID["train"] == {"rounds": 3}
    back = changed(values, ["privacy.epsilon=1.0", "privacy.delta=0.1"])
    assert back["privacy"] == {"epsilon": 1.0, "delta": 0.1}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"[data", "is not valid TOML"), (b"\xff\xfe", "cannot be read"), (None, "there is no file")],
)
def test_files_that_are_no_configuration(
    content: bytes | None, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=sentence):
        read_toml(path)


def test_files_are_named_from_the_root() -> None:
    values = changed(VALID, ["data={path = 'clients', test = '../t.csv', clients = 3}"])
    anchored = RunConfig.from_dict(values).anchored(Path("/base/config"))
    assert anchored.data == {"path": "/base/config/clients", "test": "/base/t.csv", "clients": 3}


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
)
values = st.recursive(
    st.one_of(scalars, st.lists(scalars, max_size=3)),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names, values, max_size=4))
def test_what_is_written_can_be_read_again(table: dict[str, Any]) -> None:
    assert tomllib.loads(as_toml(table)) == table


def test_a_written_configuration_is_the_same_run() -> None:
    mixed = changed(
        VALID,
        [
            "data={path='/d', columns={'größe 📏' = {range = [0, 2]}, ok = {categories = ['a']}}}",
            "privacy.delta=1e-9",
            "train.seed=3",
        ],
    )
    config = RunConfig.from_dict(mixed)
    again = RunConfig.from_dict(tomllib.loads(as_toml(config.as_dict())))
    assert again == config
