"""The page of runs in a real browser."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browser.conftest import WIDTHS, complaints, opened, overflow, reached
from tacit import cli

pytestmark = [pytest.mark.pictures, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, quick_compilation: None) -> dict[str, str]:
    """The page of one run of two seeds, and one of two runs side by side."""
    folder = tmp_path_factory.mktemp("shown")
    short = ("--set", "train.rounds=3", "--json")
    one = ("run", "--example", "digits-dp-fedavg", "--seeds", "2", "--out", str(folder / "private"))
    assert cli.run([*one, *short]) == 0
    two = ("run", "--example", "digits-fedavg", "--out", str(folder / "plain"))
    assert cli.run([*two, *short]) == 0
    runs = [str(folder / "private"), str(folder / "plain")]
    assert cli.run(["report", *runs, "--out", str(folder / "both.html")]) == 0
    found = {"one": folder / "private" / "report.html", "both": folder / "both.html"}
    return {name: path.as_uri() for name, path in found.items()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["one", "both"])
def test_it_can_be_read(
    browser: Browser, pages: dict[str, str], name: str, width: int, scheme: str
) -> None:
    with opened(browser, pages[name], width, scheme) as page:
        assert overflow(page) <= 0
        assert not complaints(page)


def test_charts_show_what_their_numbers_say(browser: Browser, pages: dict[str, str]) -> None:
    """As many lines as the table beside the chart has series, each with a length and a colour."""
    with opened(browser, pages["both"], 1440) as page:
        compared = set()
        for figure in page.locator("figure").all():
            name = figure.get_attribute("id")
            with page.expect_download() as download:
                figure.get_by_text("Numbers (CSV)").click()
            path = download.value.path()
            rows = list(csv.DictReader(io.StringIO(Path(path).read_text(encoding="utf-8"))))
            drawn = figure.locator(f'g[id^="{name}-line-"] path').all()
            if "series" in rows[0]:
                lengths = [line.evaluate("e => e.getTotalLength()") for line in drawn]
                colours = {line.evaluate("e => getComputedStyle(e).stroke") for line in drawn}
                series = {row["series"] for row in rows} - {"exact", "guessing"}  # to compare with
                assert len(drawn) == len(colours) == len(series), name
                assert min(lengths) > 0, name
                compared.add(name)
        assert {"epsilon", "attack", "test-accuracy", "test-loss"} <= compared


def test_the_keyboard_reaches_everything(browser: Browser, pages: dict[str, str]) -> None:
    with opened(browser, pages["one"], 1440) as page:
        found = reached(page)
        assert not [name for name in found if "unseen" in name]
        can_be_used = page.locator(
            "a:visible, button:visible, summary:visible, [tabindex='0']:visible"
        )
        assert len(found) == can_be_used.count()
        page.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("details").first.get_attribute("open") is not None


def test_a_print_shows_all(browser: Browser, pages: dict[str, str]) -> None:
    with opened(browser, pages["one"], 1440) as page:
        page.emulate_media(media="print")
        assert page.locator("pre").first.is_visible()
        assert len(page.pdf()) > 10_000
