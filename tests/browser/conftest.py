"""The browser that pages are opened in, one for each process of tests."""

from __future__ import annotations

from collections.abc import Iterator
from shutil import which

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

QUIET = ("--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update")


@pytest.fixture(scope="session")
def chrome() -> Iterator[Chrome]:
    options = ChromeOptions()
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-sync", *QUIET):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = which("chromedriver")
    assert driver is not None, "no chromedriver: install Chromium and its driver"
    with Chrome(options=options, service=Service(driver)) as browser:
        browser.set_window_size(1400, 1000)
        yield browser
