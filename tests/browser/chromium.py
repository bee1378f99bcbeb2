"""A headless Chromium for tests, with Debian's own driver; and its installation, where it can be installed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

T = TypeVar("T")

PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core")
LOCK = Path(tempfile.gettempdir()) / f"sparkmirror-chromium.{os.getuid()}.lock"
INSTALL_S, REQUIRE_S, WAIT_S = 300.0, 60.0, 60.0  # it begins minutes before the first test that needs it
SERIOUS = ("serious", "critical")
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
__all__ = ["Browser", "Keys", "browsers", "install", "require"]


def is_there() -> bool:
    """Whether both are on the PATH."""
    return all(shutil.which(program) for program in ("chromium", "chromedriver"))


def install() -> str:
    """Installs what is missing; says why not, "" if it is there now. Whoever waits for it waits for the lock."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there():
            return ""
        if os.getuid() or not shutil.which("apt-get"):
            return f"the page's tests are skipped: apt-get install {' '.join(PACKAGES)}"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": INSTALL_S}
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for words in (("update",), ("install", "--yes", "--no-install-recommends", *PACKAGES)):
            try:
                subprocess.run(["apt-get", "-qq", *words], check=False, env=environment, **quiet)  # type: ignore[call-overload]
            except subprocess.TimeoutExpired:
                break
        return "" if is_there() else f"the page's tests are skipped: apt-get could not install {' '.join(PACKAGES)}"


def require() -> None:
    """Skips the test unless there is a browser; waits for one that is being installed."""
    deadline = time.monotonic() + REQUIRE_S
    while not is_there() and _is_being_installed() and time.monotonic() < deadline:
        time.sleep(1.0)
    if not is_there():
        pytest.skip(f"Chromium is not installed: apt-get install {' '.join(PACKAGES)}")


def _is_being_installed() -> bool:
    if not LOCK.exists():
        return False
    with LOCK.open("r") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


class Browser:
    """One window. `problems` are what its console said since the last look."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Goes there, and waits until the page's script has run."""
        self.driver.get(url)
        self.until(lambda: self.run("return document.readyState") == "complete", f"{url} is loaded")

    def look(self, width: int, height: int = 900, *, is_dark: bool = False) -> None:
        """The size of the window, and the theme that its owner likes."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        feature = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def run(self, script: str, *words: object) -> Any:
        """JavaScript in the page."""
        return self.driver.execute_script(script, *words)

    @property
    def text(self) -> str:
        """What can be read on the page, in one line."""
        return " ".join(str(self.run("return document.body.innerText")).split())

    def press(self, *keys: str) -> None:
        """Keys, to whatever has the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def click(self, selector: str) -> None:
        """The first element that fits."""
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def type(self, selector: str, text: str) -> None:
        """Into a field."""
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(text)

    def until(self, condition: Callable[[], T], what: str, seconds: float = WAIT_S) -> T:
        """Waits for a condition."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if found := condition():
                    return found
            except StaleElementReferenceException:
                pass
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:g} s: {what}; the page says: {self.text}; {self.problems()}")
            time.sleep(0.1)

    def problems(self) -> list[str]:
        """Errors and warnings of the console since the last look."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def barriers(self) -> list[str]:
        """What axe calls serious or critical: contrast, names, roles, order of headings, …"""
        script = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        self.run(script)
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then(found => done(found.violations), error => done(String(error)))"
        )
        assert isinstance(found, list), found
        return [
            f"{rule['id']} ({rule['impact']}): {node['html'][:200]}: {node['failureSummary']}"
            for rule in found
            if rule["impact"] in SERIOUS
            for node in rule["nodes"]
        ]


@contextmanager
def browsers() -> Iterator[Browser]:
    """A browser with a profile of its own."""
    require()
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, ChromeService(str(shutil.which("chromedriver"))))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def main() -> None:
    """As `make test` calls it."""
    said = install()
    if said:
        print(json.dumps(said)[1:-1])
