"""A real browser, Debian's chromium, and what every page must be: quiet, offline, usable by all."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
WIDTHS = (360, 1440)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a file: as long as it lives its event loop runs, and asyncio.run cannot."""
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@contextlib.contextmanager
def opened(browser: Browser, address: str, width: int, scheme: Any = "light") -> Iterator[Page]:
    """A page that must not complain and must ask no other machine for anything."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    wrong: list[str] = []
    own = urlsplit(address)[:2]

    def asked(url: str) -> None:
        if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url)[:2] != own:
            wrong.append(f"asks for {url}")

    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: asked(request.url))
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    try:
        page.goto(address)
        yield page
        assert not wrong, wrong
    finally:
        page.close()


def overflow(page: Page) -> int:
    """How many pixels the page is wider than the window."""
    found: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return found


def complaints(page: Page, ignored: tuple[str, ...] = ()) -> list[str]:
    """What axe-core finds: contrast, names, order of headings, and more."""
    found = Axe().run(page, options={"preload": False}).response["violations"]
    found = [v for v in found if v["id"] not in ignored]
    return [f"{v['id']}: {[node['html'][:160] for node in v['nodes'][:3]]}" for v in found]


def reached(page: Page, most: int = 400) -> list[str]:
    """What the key Tab comes to, one after the other, until it comes round again."""
    described = """() => { const e = document.activeElement;
      if (!e || e === document.body) return '';
      e.dataset.seen = (e.dataset.seen || '') + 'x';
      const box = e.getBoundingClientRect(), look = getComputedStyle(e);
      const seen = box.width > 0 && box.height > 0 && look.outlineStyle !== 'none';
      return e.dataset.seen === 'x' ? e.tagName + (seen ? '' : ' unseen') : ''; }"""
    found = []
    for _ in range(most):
        page.keyboard.press("Tab")
        name = page.evaluate(described)
        if not name:
            break
        found.append(name)
    return found
