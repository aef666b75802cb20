"""What is public is sorted, exists, and is all that a package offers by name."""

import importlib

import pytest

PACKAGES = ("tacit.accounting",)


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names_are_sorted_unique_and_there(name: str) -> None:
    package = importlib.import_module(name)
    names = list(package.__all__)
    assert names == sorted(names)
    assert len(names) == len(set(names))
    for one in names:
        assert getattr(package, one) is not None


@pytest.mark.parametrize("name", PACKAGES)
def test_what_a_package_defines_is_documented(name: str) -> None:
    package = importlib.import_module(name)
    for one in package.__all__:
        thing = getattr(package, one)
        if getattr(thing, "__module__", "").startswith("tacit."):
            assert (thing.__doc__ or "").strip(), one


def test_the_accounting_of_the_first_issue_is_public() -> None:
    import tacit.accounting as accounting

    promised = {
        "Budget",
        "Guarantee",
        "Ledger",
        "calibrate",
        "calibrate_split",
        "compose",
        "epsilon_of",
        "every_epsilon",
        "gaussian_event",
        "gdp_delta",
        "gdp_eps",
        "gdp_mu",
        "guarantee",
        "joint_mu_squared",
        "laplace_event",
        "pure_event",
    }
    assert promised <= set(accounting.__all__)
