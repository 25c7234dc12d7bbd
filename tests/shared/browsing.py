"""What tests of several pages ask a browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome


def requests(browser: Chrome, path: Path, act: Callable[[], object]) -> list[str]:
    """What else than itself a page asks for as it is opened and used, refused or not."""
    browser.get_log("performance")
    browser.get(path.as_uri())
    act()
    messages: list[dict[str, Any]] = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if url != path.as_uri()]
