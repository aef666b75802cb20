"""``tacit account`` and ``tacit calibrate``: exit codes, one sentence on stderr, JSON."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tacit.accounting import Poisson, epsilon_of, gaussian_event, gdp_eps
from tacit.cli import run

GAUSSIAN = ("account", "gaussian", "--delta", "1e-5")
CALIBRATE = ("calibrate", "gaussian", "--delta", "1e-5")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    found = json.loads(shown.out)
    assert isinstance(found, dict)
    return found


def test_the_keys_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, *GAUSSIAN, "--noise", "5", "--count", "50", "--relation", "replace-one")
    assert {"epsilon", "delta", "relation", "sampling", "accountant", "sentence"} <= set(found)
    assert found["epsilon"] == pytest.approx(15.456156, abs=1e-6)
    assert found["delta"] == 1e-5
    assert found["relation"] == "replace-one"
    assert found["sampling"] == "none"
    assert found["accountant"] == "exact"
    assert "whole run" in found["sentence"]
    assert "epsilon = 15.457" in found["sentence"]


def test_noise_is_in_units_of_the_radius_whatever_the_relation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for relation, mu in (("add-remove", 0.2), ("replace-one", 0.4)):
        found = answer(capsys, *GAUSSIAN, "--noise", "5", "--count", "1", "--relation", relation)
        assert found["epsilon"] == pytest.approx(gdp_eps(mu, 1e-5))


def test_poisson_sampling(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(
        capsys,
        *(*GAUSSIAN, "--noise", "2", "--count", "100", "--relation", "add-remove"),
        *("--sampling", "poisson", "--rate", "0.1"),
    )
    event = gaussian_event(
        radius=1, noise=2, relation="add-remove", sampling=Poisson(rate=0.1), count=100
    )
    assert found["epsilon"] == epsilon_of(event, delta=1e-5, relation="add-remove")
    assert (found["sampling"], found["accountant"], found["rate"]) == ("poisson", "pld", 0.1)


def test_fixed_size_sampling_reports_the_sound_number(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(
        capsys,
        *(*GAUSSIAN, "--noise", "2", "--count", "100", "--relation", "replace-one"),
        *("--sampling", "fixed", "--rate", "0.1"),
    )
    assert found["epsilon"] == pytest.approx(7.8049, abs=1e-3)


def test_all_accountants(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        *(*GAUSSIAN, "--noise", "3", "--count", "20", "--relation", "replace-one"),
        *("--sampling", "fixed", "--rate", "0.1", "--accountant", "all"),
    )
    found = answer(capsys, *arguments)
    each = {one["accountant"]: one["epsilon"] for one in found["accountants"]}
    assert {"pld", "rdp", "wang"} <= set(each)
    assert found["epsilon"] == each["pld"] == min(each.values())
    assert found["accountant"] == "pld"
    assert run(list(arguments)) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in each)


@pytest.mark.parametrize("accountant", ["best", "exact", "pld", "rdp", "wang", "zcdp"])
def test_each_accountant_by_name(capsys: pytest.CaptureFixture[str], accountant: str) -> None:
    found = answer(
        capsys,
        *(*GAUSSIAN, "--noise", "5", "--count", "50", "--relation", "replace-one"),
        *("--accountant", accountant),
    )
    assert found["accountant"] == {"best": "exact"}.get(accountant, accountant)
    assert found["epsilon"] >= 15.456155


def test_a_sentence_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--noise", "5", "--count", "50", "--relation", "replace-one", "--unit", "client"]
    assert run([*GAUSSIAN, *arguments, "--observer", "the server"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for part in ("Over the whole run", "every client", "the server", "epsilon = 15.457"):
        assert part in shown


def test_no_noise_is_no_privacy(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, *GAUSSIAN, "--noise", "0", "--count", "1", "--relation", "add-remove")
    assert found["epsilon"] == "inf"
    assert "no privacy" in found["sentence"]


def test_privunit(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("account", "privunit", "--eps0", "2", "--eps1", "2", "--eps2", "2")
    found = answer(capsys, *arguments, "--count", "50", "--delta", "1e-5")
    assert found["epsilon"] == pytest.approx(300, rel=1e-6)
    assert found["epsilon"] <= 300
    assert "every client" in found["sentence"]
    assert answer(capsys, *arguments, "--count", "50", "--delta", "0")["epsilon"] == 300
    small = ("account", "privunit", "--eps0", "0.1", "--eps1", "0.1", "--eps2", "0.1")
    found = answer(capsys, *small, "--count", "50", "--delta", "1e-5")
    assert 5 < found["epsilon"] < 12


def test_calibrate_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    common = (
        *("--count", "100", "--relation", "replace-one"),
        *("--sampling", "fixed", "--rate", "0.1"),
    )
    found = answer(capsys, *CALIBRATE, "--epsilon", "3", *common)
    assert 0.999 * 3 <= found["epsilon"] <= 3
    back = answer(capsys, *GAUSSIAN, "--noise", repr(found["noise"]), *common)
    assert back["epsilon"] == found["epsilon"]
    assert "noise" in found


def test_calibrate_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(
        capsys,
        *("calibrate", "gaussian", "--epsilon", "5", "--delta", "1e-6"),
        *("--count", "500", "--relation", "add-remove"),
    )
    assert found["noise"] == pytest.approx(21.914562, rel=1e-7)
    assert "epsilon = 5 " in found["sentence"]


ONE = ("--count", "1", "--relation", "replace-one")
NOISE = ("--noise", "1")
FIXED = ("--sampling", "fixed", "--rate", "0.1")
REST = ("--eps1", "1", "--eps2", "1", "--count", "1", "--delta", "0")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*GAUSSIAN, "--noise", "-1", *ONE), "noise"),
        ((*GAUSSIAN, "--noise", "nan", *ONE), "noise"),
        ((*GAUSSIAN, "--noise", "many", *ONE), "noise"),
        ((*GAUSSIAN, "--noise", "1", "--count", "0", "--relation", "replace-one"), "count"),
        ((*GAUSSIAN, "--noise", "1", "--count", "1", "--relation", "swap"), "swap"),
        (("account", "gaussian", "--noise", "1", "--delta", "2", *ONE), "delta"),
        (("account", "gaussian", "--noise", "1", "--delta", "nan", *ONE), "delta"),
        (("account", "gaussian", "--noise", "1", *ONE), "delta"),
        ((*GAUSSIAN, "--noise", "1", *ONE, "--rate", "0.1"), "rate"),
        ((*GAUSSIAN, "--noise", "1", *ONE, "--sampling", "fixed"), "rate"),
        ((*GAUSSIAN, "--noise", "1", *ONE, "--sampling", "fixed", "--rate", "0"), "rate"),
        ((*GAUSSIAN, "--noise", "1", *ONE, "--sampling", "poisson", "--rate", "nan"), "rate"),
        ((*GAUSSIAN, "--noise", "1", *ONE, "--sampling", "fixed", "--rate", "1e-12"), "rate"),
        (
            (*GAUSSIAN, *NOISE, "--count", "1", "--relation", "add-remove", *FIXED),
            "replace-one",
        ),
        (
            (*GAUSSIAN, *NOISE, *ONE, *FIXED, "--accountant", "exact"),
            "without sampling",
        ),
        ((*GAUSSIAN, "--noise", "1", *ONE, "--accountant", "guess"), "guess"),
        (
            ("account", "privunit", "--eps0", "-1", *REST),
            "eps0",
        ),
        (
            ("account", "privunit", "--eps0", "inf", *REST),
            "epsilon",
        ),
        ((*CALIBRATE, "--epsilon", "0", *ONE), "epsilon"),
        ((*CALIBRATE, "--epsilon", "nan", *ONE), "epsilon"),
        ((*CALIBRATE, "--epsilon", "1", *ONE, "--accountant", "all"), "one accountant"),
        (("calibrate", "gaussian", "--epsilon", "1", "--delta", "0", *ONE), "delta"),
        (("account", "gausian"), "gausian"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert run(list(arguments)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("tacit: ")
    assert shown.err.count("\n") == 1
    assert says in shown.err


def test_an_impossible_budget_names_the_smallest_epsilon(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("--epsilon", "1", "--count", "15000", "--relation", "replace-one")
    sampled = ("--sampling", "fixed", "--rate", "0.0666667", "--accountant", "wang")
    assert run([*CALIBRATE, *arguments, *sampled]) == 2
    assert "smallest possible epsilon is" in capsys.readouterr().err


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    program = (
        "import sys; from tacit.cli import run; code = run(['--help']);"
        "heavy = [m for m in ('jax', 'scipy', 'dp_accounting', 'sklearn', 'matplotlib')"
        " if m in sys.modules]; print(heavy, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"
    assert "account" in done.stdout
    assert "calibrate" in done.stdout


def test_extreme_but_possible_values_do_not_crash(capsys: pytest.CaptureFixture[str]) -> None:
    for noise in ("1e-200", "1e-12", "1e12", "1e200"):
        for sampling in ((), ("--sampling", "poisson", "--rate", "0.3")):
            answer(
                capsys,
                *(*GAUSSIAN, "--noise", noise, "--count", "3", "--relation", "add-remove"),
                *sampling,
            )
