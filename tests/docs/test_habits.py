"""The papers of the house: contributing, security, citation, workflows, templates, decisions."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECISIONS = sorted((ROOT / "docs" / "explanation" / "decisions").glob("*.md"))
PAGES = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
    GITHUB / "pull_request_template.md",
    *DECISIONS,
]
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TEMPLATES = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
PINNED = re.compile(r"(\./\.github/workflows/[\w-]+\.yml|[\w.-]+/[\w.-]+@(release/)?v\d+)")


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> dict[Any, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def anchors(page: Path) -> set[str]:
    """The names of the headings of a page, as the site makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
        found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


def test_the_citation_is_of_this_version() -> None:
    citation = parsed(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert str(citation["version"]) == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]["text"]
    assert citation["authors"] == PROJECT["authors"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=short)
def test_a_workflow_has_few_rights_and_pinned_actions(path: Path) -> None:
    workflow = parsed(path)
    assert workflow["permissions"] == {"contents": "read"}
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    used += [job["uses"] for job in workflow["jobs"].values() if "uses" in job]
    assert used and all(PINNED.fullmatch(name) for name in used)
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_workflows_name_the_versions_of_the_classifiers() -> None:
    start = "Programming Language :: Python :: "
    versions = [c.removeprefix(start) for c in PROJECT["classifiers"] if c.startswith(start)]
    tests = parsed(GITHUB / "workflows" / "tests.yml")
    assert tests["jobs"]["tests"]["strategy"]["matrix"]["python"] == versions
    for path in WORKFLOWS:
        for step in steps(parsed(path)):
            version = step.get("with", {}).get("python-version", "${{ matrix.python }}")
            assert version in {*versions, "${{ matrix.python }}"}, short(path)


def test_the_tests_are_those_of_a_change() -> None:
    assert ".ci/run" in [
        step.get("run") for step in steps(parsed(GITHUB / "workflows" / "tests.yml"))
    ]
    release = parsed(GITHUB / "workflows" / "release.yml")
    assert release["jobs"]["tests"]["uses"] == "./.github/workflows/tests.yml"
    publish = release["jobs"]["publish"]
    assert set(publish["needs"]) == {"tests", "build"}
    assert publish["environment"] == "pypi"
    assert publish["permissions"] == {"id-token": "write"}


@pytest.mark.parametrize("path", [p for p in TEMPLATES if p.name != "config.yml"], ids=short)
def test_a_form_for_issues_is_whole(path: Path) -> None:
    form = parsed(path)
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert fields and all(field["attributes"]["label"] for field in fields)
    names = [field["id"] for field in fields]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["bug.yml", "privacy-bug.yml"])
def test_a_wrong_guarantee_is_sent_to_private_reporting_first(name: str) -> None:
    first = parsed(GITHUB / "ISSUE_TEMPLATE" / name)["body"][0]
    assert first["type"] == "markdown"
    assert "](../security/advisories/new)" in first["attributes"]["value"]


def test_every_issue_has_a_form() -> None:
    assert parsed(GITHUB / "ISSUE_TEMPLATE" / "config.yml") == {"blank_issues_enabled": False}


def test_hooks_are_the_tools_of_the_project() -> None:
    config = parsed(ROOT / ".pre-commit-config.yaml")
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    assert {hook["language"] for hook in hooks} == {"system"}
    assert [hook["entry"].split(" --")[0] for hook in hooks] == [
        ".venv/bin/ruff check",
        ".venv/bin/ruff format",
        ".venv/bin/mypy",
    ]


def test_targets_that_are_named_exist() -> None:
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", made, re.MULTILINE))
    named = set()
    for page in [*PAGES, *WORKFLOWS]:
        text = page.read_text(encoding="utf-8")
        named |= set(re.findall(r"(?:`|^|run: )make ([a-z-]+)", text, re.MULTILINE))
    assert {"setup", "test", "lint", "types", "docs"} <= named <= targets
    assert (ROOT / ".ci" / "run").is_file()


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def test_decisions_are_short_and_listed() -> None:
    index, nav = DECISIONS[0].parent / "index.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = index.read_text(encoding="utf-8")
    for record in DECISIONS:
        assert f"explanation/decisions/{record.name}" in nav
        if record == index:
            continue
        text = record.read_text(encoding="utf-8")
        assert f"]({record.name})" in listed
        assert len(text.split()) < 500, record.name
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences", "What would change our mind"]


@pytest.mark.parametrize("record", DECISIONS, ids=short)
def test_numbers_of_a_decision_are_on_the_pages_that_it_names(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    named = [*re.findall(r"\]\(([^)#\s]+\.md)", text), "../../../pyproject.toml"]
    there = " ".join((record.parent / name).read_text(encoding="utf-8") for name in named)
    for place in re.findall(r"`(results/[\w/.-]+\.json)`", text):
        stored = re.findall(r"\d+\.\d+", (ROOT / place).read_text(encoding="utf-8"))
        there += " ".join(["", *(f"{float(number):.{n}f}" for number in stored for n in (1, 2))])
    for number in re.findall(r"(?<![\w.])\d+\.\d+", text):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", there), number
