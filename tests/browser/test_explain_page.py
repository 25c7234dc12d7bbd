"""`explain.html` in a real browser: search, lists that open, keys, a phone's width, nothing that leaves the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
from selenium.webdriver.support.ui import WebDriverWait

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


def test_what_is_not_delegated_is_found_alone_and_with_a_search(opened: Chrome) -> None:
    operators = explanation().backends[0].operators
    outside = [n for n, each in enumerate(operators) if each.delegate is None]
    assert 0 < len(outside) < len(operators)
    opened.find_element(By.ID, "left").send_keys(Keys.SPACE)
    assert places(opened, ".op.found") == outside
    assert opened.find_element(By.ID, "matches").text == f"{len(outside)} of {len(operators)} operators"
    shown = [
        int(li.get_attribute("data-place") or -1) for li in all_of(opened, ".tree li[data-place]") if li.is_displayed()
    ]
    assert sorted(shown) == outside
    opened.find_element(By.ID, "search").send_keys("gelu")
    assert places(opened, ".op.found") == [n for n in outside if n in named("gelu")]
    opened.find_element(By.ID, "search").clear()
    opened.find_element(By.ID, "left").click()
    assert places(opened, ".op.found") == []


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


def test_the_panel_begins_with_the_first_cause(opened: Chrome) -> None:
    """Of each backend, and its button goes to where that is."""
    panel, first = one(opened, ".details"), explanation().backends[0].causes[0]
    assert first.label in panel.text and first.sentence in panel.text and "mended alone" in panel.text
    panel.find_element(By.CSS_SELECTOR, ".go").click()
    assert places(opened, ".op.selected") == [named("gelu")[0]]
    opened.find_element(By.CSS_SELECTOR, 'input[name=backend][value="1"]').click()
    assert one(opened, ".details").text.startswith(("First cause", "Every operator is delegated"))


def test_a_phone_shows_every_backend(chrome: Chrome, tmp_path: Path) -> None:
    """Five of them: their answers, and their columns, none of which has to be looked for beside the screen."""
    names = ("neutron", "neutron-1.4", "xnnpack", "ethos-u55", "ethos-u85")
    backends = tuple(replace(explanation().backends[n % 2], backend=name) for n, name in enumerate(names))
    (path := tmp_path / "five.html").write_text(page(replace(explanation(), backends=backends)))
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        chrome.get(path.as_uri())
        assert chrome.execute_script("return document.documentElement.scrollWidth") <= 400
        answers = [each.text for each in chrome.find_elements(By.CSS_SELECTOR, ".answers li")]
        heads = chrome.find_elements(By.CSS_SELECTOR, "table th[scope=col]")[1:]
        assert [text.partition(":")[0] for text in answers] == [each.text for each in heads] == list(names)
        assert all(each.is_displayed() and each.rect["x"] + each.rect["width"] <= 400 for each in heads)
        rows = [each.text for each in chrome.find_elements(By.CSS_SELECTOR, "table th[scope=row]")]
        assert len(rows) == len(set(rows)) > 7
    finally:
        chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


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


def test_a_link_to_a_closed_cause_opens_it(opened: Chrome) -> None:
    """That of an operator, in the list of modules and beside the graph."""
    place = named("gelu")[0]
    cause = one(opened, f"#cause-0-{(explanation().backends[0].operators[place].cause or 0) + 1}")
    for link in (f"#operator-0-{place} a", ".details dd a"):
        assert cause.get_attribute("open") is None
        opened.execute_script("location.hash = arguments[0]", f"operator-0-{place}")
        WebDriverWait(opened, 5).until(lambda _: places(opened, ".op.selected") == [place])
        one(opened, link).send_keys(Keys.ENTER)
        WebDriverWait(opened, 5).until(lambda _: cause.get_attribute("open") is not None)
        active = opened.switch_to.active_element
        assert active.tag_name == "summary" and active.is_displayed()
        active.send_keys(Keys.ENTER)


def test_an_address_opens_an_operator_of_any_backend(opened: Chrome, path: Path) -> None:
    """It is the one of the operator that was chosen, so that it can be sent to somebody."""
    opened.find_element(By.CSS_SELECTOR, 'input[name=backend][value="1"]').click()
    place = named("gelu", 1)[-1]
    opened.find_element(By.ID, "search").send_keys("gelu", *[Keys.ENTER] * len(named("gelu", 1)))
    address = opened.current_url
    assert address == f"{path.as_uri()}#operator-1-{place}"
    opened.get("about:blank")
    opened.get(address)
    assert places(opened, ".op.selected") == [place] and is_seen(opened, place)
    assert one(opened, f"#operator-1-{place}").is_displayed()
    opened.get("about:blank")
    opened.get(f"{path.as_uri()}#nothing")
    assert places(opened, ".op.selected") == []


def test_print_has_the_causes_and_graphs_of_every_backend(opened: Chrome) -> None:
    """And what paper cannot do is gone; on the screen nothing stays open."""
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        opened.execute_script("window.dispatchEvent(new Event('beforeprint'))")
        text = opened.find_element(By.TAG_NAME, "main").text
        for each in explanation().backends:
            assert each.backend in text and all(cause.sentence in text for cause in each.causes)
            assert all(operator.module in text for operator in each.operators)
        for svg in opened.find_elements(By.CSS_SELECTOR, ".graph svg"):
            assert svg.is_displayed() and svg.rect["width"] <= opened.execute_script("return innerWidth")
        for gone in ("#search", "#fit", ".keys"):
            assert not opened.find_element(By.CSS_SELECTOR, gone).is_displayed(), gone
        opened.execute_script("window.dispatchEvent(new Event('afterprint'))")
        assert not opened.find_elements(By.CSS_SELECTOR, ".told ol details[open]")
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


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
