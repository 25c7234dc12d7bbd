"""`report.html` in a real browser: search, filters, links, keys, a phone's width, print, and nothing that leaves it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import fake_backend
import pytest
from browsing import requests
from reported import HOSTILE, NEG, run, spoiled, with_results
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from npu_assay.conformance.compare.difference import Run, compare
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.report.page.changes import since
from npu_assay.conformance.report.render import html
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases

ALL_OPEN = "document.querySelectorAll('details').forEach((each) => { each.fill?.(); each.open = true; })"
PHONE = {"width": 400, "height": 800, "deviceScaleFactor": 2, "mobile": True}
SEEN = """
  const box = arguments[0].getBoundingClientRect(), x = box.left + Math.min(box.width, 40) / 2, y = box.top + 8;
  const hit = document.elementFromPoint(x, y);
  return hit !== null && (arguments[0].contains(hit) || hit.contains(arguments[0]));"""


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Every case of the fake backend; the device of neg drifts, and its partitioner raises on one case more."""
    ran = run(tmp_path_factory.mktemp("run"), "drifts", None)
    sound = {result.case: result for result in run(tmp_path_factory.mktemp("sound"), "backend", None).results}
    crash = next(case for case in all_cases(ran.table) if case.row == "aten.neg.default" and case.expect == "reject")
    crashed = run_case(crash, fake_backend.crashes, ran.table)
    results = [result if result.row == "aten.neg.default" else sound[result.case] for result in ran.results]
    return with_results(ran, [crashed if result.case == crash.id else result for result in results])


@pytest.fixture(scope="session")
def path(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html(report))
    return path


def opened_at(chrome: Chrome, path: Path, hash_: str = "") -> None:
    chrome.get("about:blank")
    chrome.get(path.as_uri() + hash_)
    ready = "return document.documentElement.dataset.ready === 'yes'"
    WebDriverWait(chrome, 20).until(lambda browser: browser.execute_script(ready))


@pytest.fixture
def opened(chrome: Chrome, path: Path) -> Iterator[Chrome]:
    chrome.get_log("browser")
    opened_at(chrome, path)
    yield chrome
    assert [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"] == []


def listed(browser: Chrome) -> list[str]:
    """The ids of the cases in the list, all of them."""
    while (more := browser.find_element(By.ID, "more")).is_displayed():
        more.click()
    script = "return [...document.querySelectorAll('#list details')].map((each) => each.dataset.case)"
    found: list[str] = browser.execute_script(script)
    return found


def matching(report: Report, fits: Callable[[CaseResult], bool]) -> set[str]:
    return {result.case for result in report.results if fits(result)}


def checks(result: CaseResult) -> set[str]:
    return {failure.check for failure in result.failures}


def summary_of(browser: Chrome, case: str) -> WebElement:
    found: WebElement = browser.find_element(By.CSS_SELECTOR, f"details[data-case='{case}'] summary")
    return found


def focused(browser: Chrome, case: str) -> WebElement:
    """The summary of a case, after the focus came to it from below."""
    browser.execute_script(
        "window.scrollTo(0, document.body.scrollHeight); arguments[0].focus()", summary_of(browser, case)
    )
    return summary_of(browser, case)


def case_text(browser: Chrome, case: str) -> str:
    inside = (By.CSS_SELECTOR, f"details[data-case='{case}'][open] .body")
    return str(WebDriverWait(browser, 5).until(lambda opened: opened.find_element(*inside)).text)


# ------------------------------------------------------------------------------------ finding cases


def test_every_case_is_reachable_failing_ones_first(opened: Chrome, report: Report) -> None:
    found = listed(opened)
    assert sorted(found) == sorted(result.case for result in report.results) and len(found) > 100
    assert set(found[: len(report.failures)]) == {failure.result.case for failure in report.failures}
    assert opened.find_element(By.ID, "matches").text == f"{len(found)} of {len(found)} cases"


@pytest.mark.parametrize(
    "words", ["neg baseline", "EXPECTED -33 (exact)", "quantized outside", "no rule at", "nothing of it"]
)
def test_search_looks_at_ids_messages_and_traces(opened: Chrome, report: Report, words: str) -> None:
    opened.find_element(By.ID, "search").send_keys(words)

    def said(result: CaseResult) -> str:
        told = " ".join(f"{f.check} {f.message} {' '.join(f.trace)}" for f in result.failures)
        return f"{result.case} {told}".lower()

    wanted = matching(report, lambda result: all(word in said(result) for word in words.lower().split()))
    assert set(listed(opened)) == wanted
    assert opened.find_element(By.ID, "matches").text == f"{len(wanted)} of {len(report.results)} cases"
    opened.find_element(By.ID, "search").send_keys(Keys.ESCAPE)
    assert len(listed(opened)) == len(report.results)


FILTERS: dict[str, Callable[[CaseResult], set[str]]] = {
    "status": lambda result: {result.status},
    "operator": lambda result: {result.row},
    "constraint": lambda result: {result.constraint},
    "side": lambda result: {result.side},
    "check": checks,
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters(opened: Chrome, report: Report, name: str) -> None:
    value = FILTERS[name]
    select = Select(opened.find_element(By.NAME, name))
    wanted = {each for result in report.results for each in value(result)}
    assert {option.get_attribute("value") for option in select.options} == {"", *wanted}
    for each in sorted(wanted):
        select.select_by_value(each)
        found = matching(report, lambda result, each=each: each in value(result))  # type: ignore[misc]  # of this turn
        assert set(listed(opened)) == found
        assert select.first_selected_option.text == f"{each} ({len(found)})"
    opened.find_element(By.CSS_SELECTOR, "#filters button").click()
    WebDriverWait(opened, 5).until(lambda browser: len(listed(browser)) == len(report.results))


def test_filters_hold_together_and_are_in_the_address(opened: Chrome, report: Report, path: Path) -> None:
    Select(opened.find_element(By.NAME, "operator")).select_by_value("aten.neg.default")
    Select(opened.find_element(By.NAME, "status")).select_by_value("fail")
    opened.find_element(By.ID, "search").send_keys("gate1")
    wanted = matching(report, lambda r: r.row == "aten.neg.default" and r.status == "fail" and "gate1" in checks(r))
    assert set(listed(opened)) == wanted != set()
    address = opened.current_url
    assert all(part in address for part in ("operator=aten.neg.default", "status=fail", "q=gate1"))
    opened_at(opened, path, "#" + address.partition("#")[2])
    assert set(listed(opened)) == wanted


def test_a_filter_without_choices_is_not_shown(opened: Chrome) -> None:
    labels = opened.find_elements(By.CSS_SELECTOR, "#filters label")
    shown = [each.get_attribute("data-filter") for each in labels if each.is_displayed()]
    assert "precision" not in shown and "since" not in shown and "operator" in shown


# ------------------------------------------------------------------------------------ links


def test_a_cell_opens_its_cases_and_tells_the_rule(opened: Chrome, report: Report) -> None:
    wanted = matching(report, lambda r: (r.row, r.constraint) == ("aten.neg.default", "quantized"))
    link = f"#cases?{urlencode({'operator': 'aten.neg.default', 'constraint': 'quantized'})}"
    opened.find_element(By.CSS_SELECTOR, f".matrix a[href='{link}']").click()
    WebDriverWait(opened, 5).until(lambda browser: set(listed(browser)) == wanted)
    assert "must stand between" in opened.find_element(By.ID, "rule").text
    assert opened.execute_script(SEEN, opened.find_element(By.ID, "matches"))


def test_every_link_leads_to_what_is_seen(opened: Chrome) -> None:
    """None to something that stays closed or to a list of no cases."""
    script = "return [...new Set([...document.querySelectorAll('a[href]')].map((each) => each.getAttribute('href')))]"
    links: list[str] = opened.execute_script(script)
    assert all(link.startswith("#") for link in links) and len(links) > 30
    for link in links:
        opened.execute_script("location.hash = arguments[0]", link)
        if link.startswith("#cases?"):
            WebDriverWait(opened, 5).until(lambda browser: browser.find_elements(By.CSS_SELECTOR, "#list > li"), link)
        else:
            target = opened.find_element(By.ID, link[1:])
            WebDriverWait(opened, 5).until(lambda browser, target=target: browser.execute_script(SEEN, target), link)
            assert not opened.find_elements(By.CSS_SELECTOR, f"[id='{link[1:]}'] > details:not([open])"), link


def test_a_link_to_something_in_a_closed_part_opens_it(opened: Chrome) -> None:
    plot = opened.find_element(By.CSS_SELECTOR, "#errors details > div")
    assert not plot.is_displayed()
    opened.execute_script("arguments[0].id = 'inside'; location.hash = 'inside'", plot)
    WebDriverWait(opened, 5).until(lambda browser: plot.is_displayed() and browser.execute_script(SEEN, plot))


def test_a_link_to_a_case_opens_it_also_as_an_address(chrome: Chrome, path: Path, report: Report) -> None:
    opened_at(chrome, path, f"#cases?{urlencode({'case': NEG})}")
    assert listed(chrome) == [NEG]
    text = case_text(chrome, NEG)
    assert f"assay certify {report.certificate.backend['spec']} -k {NEG} -n 1" in text
    chrome.back()


# ------------------------------------------------------------------------------------ a case


def test_a_failing_case_shows_program_elements_and_bounds(chrome: Chrome, path: Path, report: Report) -> None:
    opened_at(chrome, path, f"#cases?{urlencode({'case': NEG})}")
    text, graph = case_text(chrome, NEG), report.cases[NEG].graph
    result = next(result for result in report.results if result.case == NEG)
    for failure in result.failures:
        assert failure.message in text
    cells = [each.text for each in chrome.find_elements(By.CSS_SELECTOR, ".body td, .body th")]
    assert result.elements
    for element in result.elements:
        at = cells.index(f"out[{', '.join(map(str, element.index))}]")
        row = [str(each) for each in (*element.inputs.values(), element.found, element.expected)]
        assert cells[at + 1 : at + 1 + len(row)] == row
        assert [float(each) for each in cells[at + 6].split(" \u00b1 ")] == [element.golden, element.bound]
    for value in graph.values:
        assert value.name in cells and " x ".join(map(str, value.shape)) in cells
        if value.quant is not None:
            assert any(f"scale {value.quant.scale:g}, zero point {value.quant.zero_point}" in each for each in cells)
    assert graph.steps[-1].op in cells
    drawn = chrome.find_element(By.CSS_SELECTOR, "svg.drawn")
    assert len(drawn.find_elements(By.TAG_NAME, "g")) == len(graph.values) + len(graph.steps)


def test_a_crash_shows_the_backends_traceback(chrome: Chrome, path: Path, report: Report) -> None:
    crash = next(result for result in report.results if "crash" in checks(result))
    opened_at(chrome, path, f"#cases?{urlencode({'case': crash.case})}")
    trace = chrome.find_element(By.CSS_SELECTOR, ".body pre.trace").text
    assert trace == "\n".join(crash.failures[0].trace) and "fake_backend.py:" in trace


def test_a_passing_case_shows_what_is_recorded(opened: Chrome, report: Report) -> None:
    case = next(result for result in report.results if result.status == "pass" and result.verdict == "accept")
    opened.find_element(By.ID, "search").send_keys(case.case)
    summary_of(opened, case.case).click()
    text = case_text(opened, case.case)
    assert "the backend: accept" in text and case.program[:12] in text and "worst_ratio_to_bound" in text
    assert f"-k {case.case} -n 1" in text and "gate1" in text


@pytest.mark.parametrize("case", ["a b/c/accept/x", "it's/c/accept/$(x)", "a/c/accept/\u00e9"])
def test_commands_are_quoted_as_shells_want_them(chrome: Chrome, report: Report, tmp_path: Path, case: str) -> None:
    odd = with_results(report, [])
    result = replace(report.failures[0].result, case=case, row="aten.neg.default")
    odd = replace(odd, results=(result,), failures=(), findings=())
    (tmp_path / "odd.html").write_text(html(odd))
    opened_at(chrome, tmp_path / "odd.html")
    chrome.find_element(By.CSS_SELECTOR, "#list summary").click()
    command = WebDriverWait(chrome, 5).until(lambda opened: opened.find_element(By.CSS_SELECTOR, ".body .command code"))
    words = shlex.split(command.text)
    assert words[words.index("-k") + 1] == case and words[-2:] == ["-n", "1"]


# ------------------------------------------------------------------------------------ keys


def test_from_search_to_a_copied_command_by_keys_alone(opened: Chrome, path: Path) -> None:
    allowed = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    opened.execute_cdp_cmd("Browser.grantPermissions", allowed)

    def keys(*typed: str) -> None:
        ActionChains(opened).send_keys(*typed).perform()

    def active() -> WebElement:
        found: WebElement = opened.switch_to.active_element
        return found

    keys("/")
    assert active().get_attribute("id") == "search"
    keys("neg", Keys.ENTER)
    first, second = listed(opened)[:2]
    assert active() == summary_of(opened, first)
    keys(Keys.ARROW_DOWN)
    assert active() == summary_of(opened, second)
    keys(Keys.ARROW_UP, Keys.ENTER)
    assert case_text(opened, first)
    keys(Keys.TAB)
    assert active().text == "copy" and active().get_attribute("aria-label") == "copy the command"
    keys(Keys.ENTER)
    button = active()
    WebDriverWait(opened, 5).until(lambda browser: button.text == "copied")
    assert opened.execute_script("return navigator.clipboard.readText()").endswith(f"-k {first} -n 1")
    keys(Keys.ESCAPE)
    assert active().get_attribute("id") == "search"


def test_all_is_reached_by_tab(opened: Chrome) -> None:
    reached = set[str]()
    opened.execute_script("document.activeElement.blur()")
    for _ in range(220):
        ActionChains(opened).send_keys(Keys.TAB).perform()
        active = opened.switch_to.active_element
        name = active.get_attribute("name") or active.get_attribute("id") or active.get_attribute("class")
        reached |= {name or active.get_attribute("href") or active.tag_name}
        if active.tag_name == "summary":
            break
    for wanted in ("skip", "wide matrix", "search", "operator", "status", "check", "summary"):
        assert any(wanted == each for each in reached), wanted
    assert any(each.endswith("#operators") for each in reached)


# ------------------------------------------------------------------------------------ for every reader


def test_a_screen_reader_finds_its_way(opened: Chrome) -> None:
    """Landmarks with names, one h1, captions, scopes, names of pictures and fields."""
    opened.execute_script(ALL_OPEN)
    counts = opened.execute_script("return ['main', 'nav', 'h1'].map((tag) => document.querySelectorAll(tag).length)")
    assert counts == [1, 1, 1]
    lacking = {
        "section:not([aria-label])": "a section without a name",
        "nav:not([aria-label])": "a nav without a name",
        "th:not([scope])": "a heading of neither row nor column",
        "svg:not([role=img])": "a picture that is none",
        "[role=region]:not([aria-label])": "a region without a name",
        "[role=region]:not([tabindex='0'])": "a region that keys cannot scroll",
    }
    assert [what for selector, what in lacking.items() if opened.find_elements(By.CSS_SELECTOR, selector)] == []
    nameless = """return [...document.querySelectorAll('table')].filter((each) => !each.caption
      && !each.closest('[aria-label]')).length + [...document.querySelectorAll('input, select')].filter(
      (each) => !each.labels.length).length"""
    assert opened.execute_script(nameless) == 0
    assert opened.find_element(By.ID, "matches").get_attribute("role") == "status"


CONTRAST = """
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const shade = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (each) => { for (; each; each = each.parentElement) {
    const found = parts(getComputedStyle(each).backgroundColor);
    if (found.length === 3 || found[3] > 0) return found; } return [255, 255, 255]; };
  const low = [];
  for (const each of document.querySelectorAll("main *, nav *")) {
    const texts = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!texts || each.closest("svg, .none")) continue;
    const [a, b] = [shade(parts(getComputedStyle(each).color)), shade(behind(each))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${each.tagName}.${each.className}: ${each.textContent.slice(0, 30)}`);
  }
  return low;"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dark_and_light_can_be_read(opened: Chrome, scheme: str) -> None:
    """Every text stands out from what is behind it by 4.5, as WCAG AA asks."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        case = listed(opened)[0]
        assert opened.execute_script(SEEN, focused(opened, case))
        summary_of(opened, case).click()
        color = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (color == "rgb(255, 255, 255)") == (scheme == "light")
        assert opened.execute_script(CONTRAST) == []
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_phone(opened: Chrome, path: Path) -> None:
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        opened_at(opened, path, f"#cases?{urlencode({'case': NEG})}")
        opened.execute_script(ALL_OPEN)
        assert opened.execute_script("return document.documentElement.scrollWidth") <= 400
        past = """return [...document.querySelectorAll('main *')].filter((each) => !each.closest('.wide, svg, summary')
          && each.getBoundingClientRect().right > 401).map((each) => each.tagName + each.className)"""
        assert opened.execute_script(past) == []
        assert opened.execute_script(SEEN, summary_of(opened, NEG)) or summary_of(opened, NEG).is_displayed()
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_print_shows_every_failing_case(opened: Chrome, report: Report) -> None:
    """With its command, and without what paper cannot do; on the screen nothing stays open."""
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        opened.execute_script("window.dispatchEvent(new Event('beforeprint'))")
        text = opened.find_element(By.TAG_NAME, "main").text
        for failure in report.failures:
            assert failure.command in text and all(each.message in text for each in failure.result.failures)
        assert report.verdict in text and "Operators and constraints" in text
        assert report.certificate.results_sha256 in text
        for gone in ("nav", "#filters", ".command button", "#more"):
            assert not any(each.is_displayed() for each in opened.find_elements(By.CSS_SELECTOR, gone)), gone
        assert opened.find_element(By.CSS_SELECTOR, "#noise svg").is_displayed()
        opened.execute_script("window.dispatchEvent(new Event('afterprint'))")
        assert not opened.find_elements(By.CSS_SELECTOR, "#list details[open]")
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_browsers_own_print_opens_what_is_printed(chrome: Chrome, path: Path, report: Report) -> None:
    opened_at(chrome, path, "#cases?check=crash")
    assert not chrome.find_elements(By.CSS_SELECTOR, "#list .body")
    chrome.print_page()
    crashes = matching(report, lambda result: "crash" in checks(result))
    assert len(chrome.find_elements(By.CSS_SELECTOR, "#list .body")) == len(crashes) > 0


def test_without_scripts_the_page_says_what_is_wrong(chrome: Chrome, path: Path, report: Report) -> None:
    chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chrome.get("about:blank")
        chrome.get(path.as_uri())
        text = chrome.find_element(By.TAG_NAME, "main").text
        assert report.verdict in text and "report.md beside this file" in text
        assert all(report.first(finding).command in text for finding in report.findings)
        assert not chrome.find_element(By.ID, "filters").is_displayed()
    finally:
        chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


# ------------------------------------------------------------------------------------ what is new


def test_what_is_new_since_an_earlier_run(chrome: Chrome, report: Report, tmp_path: Path) -> None:
    """The earlier run: all passed, one case was not there, another is gone, and one rejection had another reason."""
    now = {result.case: result for result in report.results}
    failing = [failure.result.case for failure in report.failures]
    fresh, gone = failing[0], "aten.neg.default/operator/accept/gone"
    passing = next(name for name, result in now.items() if result.status == "pass")
    passed: dict[str, Any] = {"status": "pass", "failures": (), "elements": (), "shapes": {}}
    before = {name: replace(result, **passed) for name, result in now.items()}
    before[gone] = replace(before.pop(fresh), case=gone)
    before[passing] = replace(before[passing], verdict="partial")
    earlier = Run("an earlier run", report.certificate, before)
    found = since(compare(earlier, Run("now", report.certificate, now)))
    (tmp_path / "new.html").write_text(html(report, found))
    opened_at(chrome, tmp_path / "new.html")
    section = chrome.find_element(By.ID, "since").text
    assert "What is new since an earlier run" in section
    wanted = {"newly failing": set(failing[1:]), "new": {fresh}, "changed": {passing}}
    for mark, cases in wanted.items():
        assert f"{mark} {len(cases)} " in section
        chrome.find_element(By.CSS_SELECTOR, f".counts a[href='#cases?{urlencode({'since': mark})}']").click()
        WebDriverWait(chrome, 5).until(lambda browser, cases=cases: set(listed(browser)) == cases, mark)
    assert "newly passing 0 " in section and "gone 1 " in section and gone not in wanted
    chrome.find_element(By.CSS_SELECTOR, "#since details summary").click()
    assert gone in chrome.find_element(By.ID, "since").text


# ------------------------------------------------------------------------------------ nothing leaves the file


def used(chrome: Chrome) -> Callable[[], Any]:
    def act() -> None:
        WebDriverWait(chrome, 20).until(lambda browser: browser.find_elements(By.CSS_SELECTOR, "#list > li"))
        chrome.find_element(By.CSS_SELECTOR, "#list summary").click()

    return act


def test_nothing_is_asked_for(chrome: Chrome, path: Path) -> None:
    chrome.get("about:blank")
    assert requests(chrome, path, used(chrome)) == []


def test_a_request_would_be_seen_and_is_refused(chrome: Chrome, path: Path, tmp_path: Path) -> None:
    """That the test above can fail; and that the page's policy stops what would get into it, scripts too."""
    put = '<main><img src="other.png"><script src="other.js"></script><script>document.title = "broken"</script>'
    leak = path.read_text().replace("<main>", put)
    (tmp_path / "open.html").write_text(leak.replace("Content-Security-Policy", "X-Nothing"))
    (tmp_path / "closed.html").write_text(leak)
    assert len(requests(chrome, tmp_path / "open.html", used(chrome))) == 2 and chrome.title == "broken"
    chrome.get_log("browser")
    requests(chrome, tmp_path / "closed.html", used(chrome))
    refused = [each["message"] for each in chrome.get_log("browser") if "Content Security Policy" in each["message"]]
    assert len(refused) == 3 and chrome.title != "broken"


def test_no_text_of_a_backend_runs(chrome: Chrome, report: Report, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(html(spoiled(report)))
    opened_at(chrome, path, f"#cases?{urlencode({'case': NEG})}")
    text = case_text(chrome, NEG)
    shown = HOSTILE.replace("\x00", "\\x00").replace("\x1b", "\\x1b")
    assert chrome.title != "broken" and not chrome.find_elements(By.TAG_NAME, "img")
    assert text.count(shown) >= 5 and "npu.py:3 in run: x" in text
