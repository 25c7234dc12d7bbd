"""The board in a real browser: search, keys, links, a phone's width, print, nothing that leaves the page."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_runs import ROWS, hostile, results, three, write
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from npu_assay.conformance.board.building import build

PHONE = {"width": 400, "height": 800, "deviceScaleFactor": 2, "mobile": True}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    other = write(folder / "other", results(2), backend="other")
    build([*map(str, three(folder / "runs")), str(other), str(hostile(folder))], folder / "site")
    return folder / "site"


@pytest.fixture
def opened(chrome: Chrome, site: Path) -> Iterator[Chrome]:
    chrome.get((site / "index.html").as_uri())
    yield chrome
    assert [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"] == []


def shown(browser: Chrome) -> list[str]:
    """The entries that a reader sees, by what they can be found by."""
    found = browser.find_elements(By.CSS_SELECTOR, "[data-find]")
    return [str(each.get_attribute("data-find")) for each in found if each.is_displayed()]


def test_search_leaves_what_has_every_word(opened: Chrome) -> None:
    everything = shown(opened)
    box = opened.find_element(By.ID, "search")
    box.send_keys("ATEN cat")
    assert shown(opened) == [text for text in everything if "aten" in text.lower() and "cat" in text.lower()] != []
    assert opened.find_element(By.ID, "hits").text == f"{len(shown(opened))} of {len(everything)} entries"
    box.send_keys(" nothing-like-this")
    assert shown(opened) == [] and opened.find_element(By.ID, "hits").text.startswith("0 of ")
    box.send_keys(Keys.ESCAPE)
    assert shown(opened) == everything and box.get_attribute("value") == ""


def test_a_search_is_a_link(opened: Chrome, site: Path) -> None:
    opened.find_element(By.ID, "search").send_keys("other against")
    there = opened.current_url
    opened.get("about:blank")
    opened.get(there)
    assert shown(opened) == ["other against toy", "other against toy certified"]  # its readiness, and its run


def test_keys_reach_the_search_and_the_content(opened: Chrome) -> None:
    ActionChains(opened).send_keys("/").perform()
    assert opened.switch_to.active_element.get_attribute("id") == "search"
    opened.find_element(By.TAG_NAME, "body").click()
    opened.execute_script("document.activeElement.blur(); window.getSelection().removeAllRanges()")
    opened.get(opened.current_url.partition("#")[0])
    ActionChains(opened).send_keys(Keys.TAB).perform()
    skip = opened.switch_to.active_element
    assert skip.text == "Skip to content" and skip.is_displayed()


def test_a_cell_leads_to_its_run_and_back(opened: Chrome) -> None:
    row = next(each for each in opened.find_elements(By.CSS_SELECTOR, ".matrix tbody tr") if ROWS[0] in each.text)
    row.find_element(By.TAG_NAME, "a").click()
    assert "/runs/" in opened.current_url and opened.find_element(By.TAG_NAME, "h1").text in ("r3", "other")
    opened.find_elements(By.CSS_SELECTOR, "nav a")[1].click()
    assert "/tracks/" in opened.current_url
    opened.find_elements(By.CSS_SELECTOR, "nav a")[0].click()
    assert opened.current_url.endswith("/index.html")


def test_what_changed_opens_by_keys(opened: Chrome) -> None:
    opened.find_element(By.LINK_TEXT, "toy").click()
    part = opened.find_elements(By.CSS_SELECTOR, "#changes ~ details")[0]
    assert part.get_attribute("open") is None
    part.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    assert part.get_attribute("open") is not None and part.find_element(By.TAG_NAME, "li").is_displayed()


@pytest.mark.parametrize("page", ["index.html", "tracks/*.html", "runs/*.html"])
def test_a_phone_shows_every_page_without_scrolling_sideways(page: str, opened: Chrome, site: Path) -> None:
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        for path in site.glob(page):
            opened.get(path.as_uri())
            width = opened.execute_script("return document.documentElement.scrollWidth")
            assert width <= PHONE["width"], path.name
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_in_light_and_dark(scheme: str, opened: Chrome) -> None:
    """WCAG's contrast of 4.5 for every text on what lies behind it."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        worst = opened.execute_script("""
          const light = (rgb) => rgb.map((c) => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
            .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
          const parts = (text) => text.match(/[\\d.]+/g).map(Number);
          const behind = (one) => { for (let at = one; at; at = at.parentElement) {
            const color = parts(getComputedStyle(at).backgroundColor);
            if (color.length < 4 || color[3] > 0) return color.slice(0, 3); } return [255, 255, 255]; };
          let worst = [99, ""];
          for (const one of document.querySelectorAll("h1,h2,p,a,td,th,caption,li,label,footer,span,summary")) {
            if (!one.textContent.trim() || !one.offsetWidth || one.classList.contains("skip")) continue;
            const a = light(parts(getComputedStyle(one).color).slice(0, 3)), b = light(behind(one));
            const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
            if (contrast < worst[0]) worst = [contrast, one.outerHTML.slice(0, 200)];
          }
          return worst;""")
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert worst[0] >= 4.5, worst


def test_print_has_every_operator_and_no_search(opened: Chrome) -> None:
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not opened.find_element(By.ID, "search").is_displayed()
        assert all(row in opened.find_element(By.TAG_NAME, "main").text for row in ROWS)
        made = opened.execute_cdp_cmd("Page.printToPDF", {})
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert base64.b64decode(made["data"]).startswith(b"%PDF")


def test_print_has_what_is_closed_on_the_screen(opened: Chrome) -> None:
    opened.find_element(By.LINK_TEXT, "toy").click()
    closed = opened.find_elements(By.CSS_SELECTOR, "details:not([open])")
    assert closed
    seen = "return arguments[0].checkVisibility({contentVisibilityAuto: true}) && arguments[0].offsetHeight > 0"
    items = [each.find_element(By.TAG_NAME, "li") for each in closed]
    assert not any(opened.execute_script(seen, item) for item in items)
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        # The page hears of the other medium when it is drawn for it.
        WebDriverWait(opened, 10).until(lambda page: all(page.execute_script(seen, item) for item in items))
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_nothing_is_asked_for_but_the_pages(opened: Chrome, site: Path) -> None:
    opened.get_log("performance")
    for path in site.rglob("*.html"):
        opened.get(path.as_uri())
    sent = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    asked = {each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"}
    assert all(url.startswith(site.as_uri()) and url.endswith(".html") for url in asked), asked


def test_texts_of_a_run_do_nothing(opened: Chrome, site: Path) -> None:
    for path in site.rglob("*.html"):
        opened.get(path.as_uri())
        assert opened.title != "broken" and opened.find_elements(By.TAG_NAME, "img") == []


def test_tables_have_captions_and_scopes(opened: Chrome, site: Path) -> None:
    for path in site.rglob("*.html"):
        opened.get(path.as_uri())
        for table in opened.find_elements(By.TAG_NAME, "table"):
            assert table.find_elements(By.TAG_NAME, "caption")
        assert opened.find_elements(By.CSS_SELECTOR, "th:not([scope])") == []
        assert len(opened.find_elements(By.CSS_SELECTOR, "main")) == len(opened.find_elements(By.TAG_NAME, "h1")) == 1
