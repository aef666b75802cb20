"""The documentation in a real browser, opened from a folder without a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import WIDTHS, complaints, opened, overflow

pytestmark = pytest.mark.xdist_group("browser")
ROOT = Path(__file__).parents[2]
PAGES = sorted(p.relative_to(ROOT / "docs").with_suffix("") for p in (ROOT / "docs").rglob("*.md"))
TALLEST = 20_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Path:
    """The built pages; only where there is a browser."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", out]
    subprocess.run(command, cwd=ROOT, check=True, env={"NO_MKDOCS_2_WARNING": "1"})
    return out


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES, ids=str)
def test_a_page(browser: Browser, site: Path, name: Path, width: int) -> None:
    with opened(browser, (site / name).with_suffix(".html").as_uri(), width) as page:
        assert overflow(page) <= 0
        assert page.evaluate("document.body.scrollHeight") < TALLEST * (3 if width < 1000 else 1)
        if width > 1000:
            assert not complaints(page)


def test_the_search_works_without_a_server(browser: Browser, site: Path) -> None:
    with opened(browser, (site / "index.html").as_uri(), 1440) as page:
        page.get_by_role("textbox", name="Search").fill("clip radius")
        expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=20_000)
