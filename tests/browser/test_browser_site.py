"""The documentation in a real browser, opened from a folder without a server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import WIDTHS, complaints, opened, overflow

pytestmark = pytest.mark.xdist_group("browser")
ROOT = Path(__file__).parents[2]
EVERY = sorted(p.relative_to(ROOT / "docs").with_suffix("") for p in (ROOT / "docs").rglob("*.md"))
TALLEST = 20_000  # pixels
WIDEST = """Math.max(0, ...[...document.querySelectorAll('.md-typeset__scrollwrap')]
  .map(e => e.scrollWidth - e.clientWidth))"""
KINDS = ("index", "tutorials/first-run", "results/fedexp", "reference/api/train")
# The widest and the longest, and one of each kind; `make browser-test` opens them all.
SOME = [p for p in EVERY if p.parts[0] == "results" or str(p) in KINDS]
PAGES = EVERY if "TACIT_EVERY_PAGE" in os.environ else SOME
# The theme's search has no name, and two of its menus have the same.
THEMES_OWN = ("aria-dialog-name", "landmark-unique")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Path:
    """The built pages; only where there is a browser."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", out]
    subprocess.run(command, cwd=ROOT, check=True, env={"NO_MKDOCS_2_WARNING": "1"})
    return out


@pytest.mark.parametrize("name", PAGES, ids=str)
def test_a_page_fits(browser: Browser, site: Path, name: Path) -> None:
    """On a phone and on a desk; a wide table scrolls in its own frame, and on a desk does not."""
    address = (site / name).with_suffix(".html").as_uri()
    with opened(browser, address, WIDTHS[0]) as page:
        assert overflow(page) <= 0
    with opened(browser, address, WIDTHS[1]) as page:
        assert overflow(page) <= 0
        assert page.evaluate("document.body.scrollHeight") < TALLEST
        if name.parts[0] == "results":  # no epsilon is out of sight
            assert page.evaluate(WIDEST) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", KINDS)
def test_everyone_can_read_it(browser: Browser, site: Path, name: str, scheme: str) -> None:
    with opened(browser, (site / f"{name}.html").as_uri(), WIDTHS[1], scheme) as page:
        assert not complaints(page, ignored=THEMES_OWN)


def test_the_search_works_without_a_server(browser: Browser, site: Path) -> None:
    with opened(browser, (site / "index.html").as_uri(), 1440) as page:
        page.get_by_role("textbox", name="Search").fill("clip radius")
        expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=20_000)
