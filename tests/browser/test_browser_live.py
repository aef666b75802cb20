"""The live view in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from browser.conftest import WIDTHS, complaints, opened, overflow, reached
from live.conftest import change_status, make_run
from live.conftest import opened as served

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("seen") / "runs"
    make_run(found / "finished")
    make_run(found / "other", rounds=6)
    make_run(found / "training", rounds=9, done=3)
    return found


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    for client in served(root):
        assert isinstance(client, httpx.Client)
        yield str(client.base_url)


def names(page: Page) -> list[str]:
    return page.locator("tbody tr:visible td[data-label=Name]").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_can_be_read(browser: Browser, address: str, width: int, scheme: str) -> None:
    with opened(browser, address, width, scheme) as page:
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("tbody tr")).to_have_count(3)
        for box in page.locator("tbody input[type=checkbox]").all()[:2]:
            box.check()
        expect(page.locator("#charts")).to_be_visible()
        page.wait_for_timeout(300)
        assert overflow(page) <= 0
        assert not complaints(page)


def test_sort_filter_and_overlay(browser: Browser, address: str) -> None:
    with opened(browser, address, 1440) as page:
        expect(page.locator("tbody tr")).to_have_count(3)
        assert names(page) == ["finished", "other", "training"]
        page.get_by_role("button", name="Name").click()
        assert names(page) == ["training", "other", "finished"]
        page.locator("#filter").fill("oth")
        assert names(page) == ["other"]
        page.locator("#filter").fill("")
        for box in page.locator("tbody input[type=checkbox]").all():
            box.check()
        expect(page.locator("#legend li")).to_have_count(3)
        for chart in page.locator(".charts svg").all():
            expect(chart.locator("path.line")).to_have_count(3)
        page.get_by_role("button", name="Remove all from the charts").click()
        expect(page.locator("#charts")).to_be_hidden()


def test_it_follows_a_run(browser: Browser, address: str, root: Path) -> None:
    with opened(browser, address, 1440) as page:
        row = page.locator("tbody tr", has_text="training")
        expect(row).to_contain_text("3")
        change_status(root / "training", round=7)
        expect(row).to_contain_text("7", timeout=10_000)


def test_details_and_the_keyboard(browser: Browser, address: str) -> None:
    with opened(browser, address, 1440) as page:
        expect(page.locator("tbody tr")).to_have_count(3)
        found = reached(page)
        assert not [name for name in found if "unseen" in name]
        assert found.count("INPUT") == 4  # the filter and three runs
        button = page.locator("tbody tr", has_text="finished").get_by_role("button").first
        button.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#details")).to_be_visible()
        expect(page.locator("#details .guarantee")).to_contain_text("epsilon")
        assert not complaints(page)
        page.keyboard.press("Escape")
        expect(page.locator("#details")).to_be_hidden()
        expect(button).to_be_focused()
