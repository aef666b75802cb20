from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tacit.cli.data import app
from tacit.data import CATALOGUE, Federation
from tacit.data.label_picture import label_counts, who_holds_what
from tacit.errors import TacitError

pytestmark = pytest.mark.usefixtures("no_data")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def ask(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return answer


def test_list() -> None:
    lines = ask("list")["datasets"]
    assert [line["name"] for line in lines] == list(CATALOGUE)
    assert {line["name"] for line in lines if line["present"]} >= {"digits", "quadratic"}
    assert "heart-disease" in run("list")


def test_show() -> None:
    facts = ask("show", "digits")
    assert facts["present"]
    assert sum(facts["label_counts"]) == 1438
    assert ask("show", "quadratic")["groups"] == {"client": 2}
    absent = ask("show", "mnist")
    assert not absent["present"]
    assert absent["files"][0]["url"].startswith("https://")
    assert "train-images-idx3-ubyte" in run("show", "mnist")
    assert "put the folder femnist" in run("show", "femnist")


def test_split(tmp_path: Path) -> None:
    picture = tmp_path / "who.png"
    settings = ("--split", "dirichlet", "--alpha", "0.3", "--clients", "12", "--seed", "3")
    answer = ask("split", "digits", *settings, "--out", str(picture))
    assert len(answer["names"]) == answer["clients"] == 12
    assert sum(answer["sizes"]) == np.array(answer["label_counts"]).sum() == 1438
    with Image.open(picture) as image:
        assert image.size[0] > 500
    assert ask("split", "digits", *settings)["sizes"] == answer["sizes"]
    text = run("split", "digits", *settings)
    assert "12 clients hold 1,438 records" in text
    held = ask("split", "digits", "--clients", "5", "--held-out", "0.25")
    assert held["test_from"] == "clients"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("show", "minst"), "did you mean 'mnist'"),
        (("split", "digits", "--split", "iid", "--clients", "5000"), "at most 1438"),
        (("split", "digits", "--clients", "5", "--out", "who.txt"), "no picture name"),
        (("split", "digits", "--clients", "5", "--out", "nowhere/who.png"), "cannot be written"),
        (("split", "mnist", "--clients", "5"), "TACIT_DATA"),
        (("fetch", "digits"), "needs no files"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(TacitError, match=complaint) as caught:
        CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("clients", "classes"), [(1, 2), (10, 10), (41, 0), (1000, 10), (1500, 62)]
)
def test_pictures_of_few_and_many(clients: int, classes: int, tmp_path: Path) -> None:
    count = clients * 3
    labels = np.arange(count) % classes if classes else np.ones(count)
    federation = Federation(
        records={"x": np.ones((count, 1)), "y": labels},
        sizes=np.full(clients, 3),
        names=tuple(f"a client with a rather long name {i}" for i in range(clients)),
        classes=classes,
    )
    counts = label_counts(federation)
    assert counts.shape == (clients, max(classes, 1))
    assert counts.sum() == count
    path = tmp_path / "p.png"
    who_holds_what(federation).savefig(path)
    with Image.open(path) as image:
        assert len(np.unique(np.asarray(image.convert("L")))) > 5
