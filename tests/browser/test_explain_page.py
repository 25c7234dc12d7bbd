"""`explain.html` in a real browser: search, lists that open, keys, a phone's width, nothing that leaves the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import requests
from pages import explanation, hostile
from quantizing import QUANTIZES
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from npu_assay.conformance.explain.page import page

pytestmark = QUANTIZES
PHONE = {"width": 400, "height": 800, "deviceScaleFactor": 2, "mobile": True}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "explain.html"
    path.write_text(page(explanation()))
    return path


@pytest.fixture
def opened(chrome: Chrome, path: Path) -> Iterator[Chrome]:
    chrome.get(path.as_uri())
    yield chrome
    assert [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"] == []


def all_of(browser: Chrome, selector: str) -> list[WebElement]:
    found: list[WebElement] = browser.find_elements(By.CSS_SELECTOR, f"section:not([hidden]) {selector}")
    return found


def one(browser: Chrome, selector: str) -> WebElement:
    (found,) = all_of(browser, selector)
    return found


def places(browser: Chrome, selector: str) -> list[int]:
    return [int(each.get_attribute("data-place") or -1) for each in all_of(browser, selector)]


def named(text: str, backend: int = 0) -> list[int]:
    return [n for n, each in enumerate(explanation().backends[backend].operators) if text in each.operator]


def is_seen(browser: Chrome, place: int) -> bool:
    """Whether an operator of the graph is what the browser shows at its middle."""
    script = """
      const node = document.querySelector(`section:not([hidden]) .op[data-place="${arguments[0]}"]`);
      const box = node.getBoundingClientRect();
      const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
      return hit !== null && hit.closest(".op") === node;"""
    return bool(browser.execute_script(script, place))


def test_search(opened: Chrome) -> None:
    box = opened.find_element(By.ID, "search")
    box.send_keys("GELU")
    gelus = named("gelu")
    assert places(opened, ".op.found") == gelus and len(gelus) == 3
    count = len(explanation().backends[0].operators)
    assert opened.find_element(By.ID, "matches").text == f"3 of {count} operators"
    for place in gelus:
        box.send_keys(Keys.ENTER)
        assert places(opened, ".op.selected") == [place] and is_seen(opened, place)
    assert [each.is_displayed() for each in all_of(opened, ".tree li[data-place]")].count(True) == 3
    box.send_keys(Keys.ESCAPE)
    assert places(opened, ".op.found") == [] and box.get_attribute("value") == ""


@pytest.mark.parametrize("text", ["unsupported", "2.act", "pages.py", "int8 aten.add nothing", "float32"])
def test_search_looks_at_reasons_modules_and_lines(opened: Chrome, text: str) -> None:
    opened.find_element(By.ID, "search").send_keys(text)
    operators = explanation().backends[0].operators

    def said(n: int) -> str:
        each = operators[n]
        reasons = " ".join(f"{reason.code} {reason.sentence}" for reason in each.reasons)
        return f"{each.name} {each.operator} {each.module} {each.kind} {each.source} {each.code} {each.dtype} {reasons}"

    wanted = [n for n in range(len(operators)) if all(word in said(n).lower() for word in text.split())]
    assert places(opened, ".op.found") == wanted


def test_an_operator_says_why_and_where(opened: Chrome) -> None:
    place = named("gelu")[0]
    ActionChains(opened).move_to_element(one(opened, f'.op[data-place="{place}"]')).click().perform()
    text, operator = one(opened, ".details").text, explanation().backends[0].operators[place]
    (reason,) = operator.reasons
    for part in (operator.operator, operator.module, operator.code, reason.code, reason.sentence, "not delegated"):
        assert part in text


def test_causes_and_modules_open_by_keys(opened: Chrome) -> None:
    cause = all_of(opened, ".told ol > li > details")[0]
    assert cause.get_attribute("open") is None
    cause.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    assert cause.get_attribute("open") is not None
    link = cause.find_element(By.CSS_SELECTOR, ".go")
    link.send_keys(Keys.ENTER)
    root = explanation().backends[0].causes[0].roots[0]
    place = [each.name for each in explanation().backends[0].operators].index(root)
    assert places(opened, ".op.selected") == [place] and is_seen(opened, place)
    module = next(each for each in all_of(opened, ".tree details details") if each.text.startswith("2"))
    module.find_element(By.TAG_NAME, "summary").send_keys(Keys.SPACE)
    assert module.get_attribute("open") is not None


def test_arrows_go_from_operator_to_operator(opened: Chrome) -> None:
    graph, operators = one(opened, ".graph"), explanation().backends[0].operators
    graph.send_keys(Keys.ARROW_DOWN)
    assert places(opened, ".op.selected") == [0]
    walked = [0]
    for _ in range(4):
        graph.send_keys(Keys.ARROW_DOWN)
        (place,) = places(opened, ".op.selected")
        assert operators[walked[-1]].name in operators[place].inputs and is_seen(opened, place)
        walked.append(place)
    graph.send_keys(Keys.ARROW_UP)
    (place,) = places(opened, ".op.selected")
    assert operators[place].name in operators[walked[-1]].inputs and is_seen(opened, place)
    graph.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert places(opened, ".op.selected") == [place + 1]
    graph.send_keys("/")
    assert opened.switch_to.active_element.get_attribute("id") == "search"


def test_all_is_reached_by_tab(opened: Chrome) -> None:
    reached = set[str]()
    opened.execute_script("document.activeElement.blur()")
    for _ in range(60):
        ActionChains(opened).send_keys(Keys.TAB).perform()
        active = opened.switch_to.active_element
        reached |= {active.get_attribute("id") or active.get_attribute("class") or active.tag_name}
    assert {"search", "in", "out", "fit", "graph", "told", "summary"} <= reached


def test_zoom_and_pan(opened: Chrome) -> None:
    graph = one(opened, ".graph")

    def width() -> float:
        return float(opened.execute_script("return arguments[0].querySelector('svg').clientWidth", graph))

    before = width()
    graph.send_keys("+")
    assert width() == pytest.approx(1.25 * before, abs=2)
    opened.find_element(By.ID, "out").click()
    assert width() == pytest.approx(before, abs=2)
    opened.execute_script("arguments[0].scrollTop = 0", graph)
    ActionChains(opened).move_to_element(graph).click_and_hold().move_by_offset(0, -60).release().perform()
    assert opened.execute_script("return arguments[0].scrollTop", graph) == pytest.approx(60, abs=2)
    graph.send_keys("0")
    script = "const g = arguments[0]; return g.scrollHeight <= g.clientHeight + 1 && g.scrollWidth <= g.clientWidth + 1"
    assert opened.execute_script(script, graph)


def test_each_backend_has_its_graph_and_its_colour(opened: Chrome) -> None:
    fills = []
    for number, explained in enumerate(explanation().backends):
        opened.find_element(By.CSS_SELECTOR, f'input[name=backend][value="{number}"]').click()
        taken = [n for n, each in enumerate(explained.operators) if each.delegate is not None]
        assert places(opened, ".op.taken") == taken and len(all_of(opened, ".op")) == len(explained.operators)
        fills.append(all_of(opened, ".op.taken rect")[0].value_of_css_property("fill"))
    assert len(set(fills)) == len(fills) == 2


def test_a_phone(opened: Chrome) -> None:
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        assert opened.execute_script("return document.documentElement.scrollWidth") <= 400
        opened.find_element(By.ID, "search").send_keys("gelu", Keys.ENTER)
        assert is_seen(opened, named("gelu")[0])
        details = one(opened, ".details")
        assert details.is_displayed() and details.rect["width"] <= 400
        long = "arguments[0].append(...Array(99).fill('why ').map((text) => new Option(text)))"
        opened.execute_script(long, details)
        assert is_seen(opened, named("gelu")[0]), "the reasons cover the operator"
        shown = opened.execute_script("return arguments[0].getBoundingClientRect().bottom", details)
        assert shown <= opened.execute_script("return window.innerHeight") + 1
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


# ------------------------------------------------------------------------------------ nothing leaves the file


def asked(browser: Chrome, path: Path) -> list[str]:
    return requests(browser, path, lambda: browser.find_element(By.ID, "search").send_keys("gelu", Keys.ENTER))


def test_nothing_is_asked_for(chrome: Chrome, path: Path) -> None:
    assert asked(chrome, path) == []


def test_a_request_would_be_seen_and_is_refused(chrome: Chrome, path: Path, tmp_path: Path) -> None:
    """That the test above can fail; and that the page's policy stops what would get into it."""
    leak = path.read_text().replace("<main>", '<main><img src="other.png"><script src="other.js"></script>')
    (tmp_path / "open.html").write_text(leak.replace("Content-Security-Policy", "X-Nothing"))
    (tmp_path / "closed.html").write_text(leak)
    assert len(asked(chrome, tmp_path / "open.html")) == 2
    chrome.get_log("browser")
    asked(chrome, tmp_path / "closed.html")
    refused = [each["message"] for each in chrome.get_log("browser") if "Content Security Policy" in each["message"]]
    assert len(refused) == 2


def test_no_text_of_a_model_runs(chrome: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(page(hostile()))
    chrome.get(path.as_uri())
    chrome.find_element(By.ID, "search").send_keys("gelu", Keys.ENTER)
    assert "what backends take of it" in chrome.title and chrome.title != "broken"
    assert "document.title = 'broken'" in one(chrome, ".details").text
    assert not chrome.find_elements(By.TAG_NAME, "img")
