"""The page in a real browser, on flows that are values: what is seen, heard, typed and lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="the page's tests need selenium: make install")
from browser.chromium import Browser, Keys, browsers
from browser.flows import HOSTILE, TOO_LARGE, a_flow, a_page, a_partition, a_readiness, healthy, now_ms
from sparkmirror.diagnose.findings import Severity
from sparkmirror.rest import HttpDoor
from sparkmirror.rest.page.readings import FlowReading
from sparkmirror.status import FlowStatus

SIZES = (400, 1280, 2560)


@dataclass
class Stage:
    """A server that is shown a flow ten times a second, as the main loop shows it."""

    door: HttpDoor
    flow: Callable[[], list[FlowStatus]]
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.over.wait(0.1):
            self.door.show(self.flow())

    @property
    def url(self) -> str:
        return self.door.url


def in_trouble(name: str = "A->B") -> FlowStatus:
    stopped = a_partition("orders", 3, state="stopped", code="RECORD_TOO_LARGE", reason=TOO_LARGE, lag=17)
    waiting = a_partition("billing", 0, state="waiting", code="SOURCE", reason="the leader of billing-0 does not answer")
    flow = a_flow(*healthy(), stopped, waiting, a_partition("orders", 0, lag=5), name=name)
    flow.chores["acls"] = "cluster B refuses to create ACLs"
    flow.stopped_topics["odd"] = f"topic odd: {HOSTILE}"
    return flow


def readings(name: str) -> FlowReading:
    found = {"billing": (Severity.FINE, "same record on both sides", 12), HOSTILE: (Severity.ERROR, "not synced", 3)}
    return FlowReading(now_ms(), 0.1, a_readiness({"orders": found}))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers() as opened:
        yield opened


@pytest.fixture
def stage(browser: Browser, tmp_path: Path) -> Iterator[Stage]:
    with opened_stage(browser, tmp_path, ["A->B"]) as made:
        yield made


@pytest.fixture
def two_flows(browser: Browser, tmp_path: Path) -> Iterator[Stage]:
    with opened_stage(browser, tmp_path, ["A->B", "B->A"]) as made:
        yield made


@contextmanager
def opened_stage(browser: Browser, folder: Path, names: list[str]) -> Iterator[Stage]:
    _, door = a_page(folder, names, readings)
    with door:
        made = Stage(door, lambda: [in_trouble(name) for name in names])
        door.show(made.flow())
        thread = threading.Thread(target=made.run)
        thread.start()
        try:
            yield made
        finally:
            browser.driver.get("about:blank")  # a page whose server went away would complain in the console of the next
            browser.problems()
            made.over.set()
            thread.join()


def test_it_loads_and_lives_without_a_word_in_the_console(browser: Browser, stage: Stage) -> None:
    browser.look(1280)
    browser.open(stage.url)
    browser.until(lambda: "live, as of" in browser.text, "events come")
    assert "✕ stopped" in browser.text and "orders-3 is stopped" in browser.text
    stage.flow = lambda: [a_flow(*healthy(2, 2), a_partition("orders", 0, lag=4321))]
    browser.until(lambda: "4,321" in browser.text and "orders-3 is stopped" not in browser.text, "the page follows the flow")
    assert browser.run("return document.title") == "A->B: degraded · sparkmirror"  # of the moment it was loaded
    assert browser.problems() == []


def test_hostile_names_do_no_harm(browser: Browser, stage: Stage) -> None:
    browser.look(1280)
    browser.open(f"{stage.url}/?topic=orders")
    browser.until(lambda: "onerror" in browser.text and "not synced" in browser.text, "names and groups are shown")
    browser.until(lambda: "live, as of" in browser.text, "events come")
    assert browser.run("return document.title").startswith("A->B: ")
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert browser.problems() == []


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    "path", ["/", "/?topic=orders&all=1", "/ui/act?verb=restart&flow=A-%3EB&topic=orders", "/ui/flows/none", "/?q=nothing"]
)
def test_axe_finds_no_serious_barrier(browser: Browser, stage: Stage, path: str, is_dark: bool) -> None:
    browser.look(1280, is_dark=is_dark)
    browser.open(f"{stage.url}{path}")
    if path.startswith("/?"):
        browser.until(lambda: "live, as of" in browser.text, "events come")
    assert browser.barriers() == []


def test_axe_finds_no_serious_barrier_with_several_flows(browser: Browser, two_flows: Stage) -> None:
    browser.look(400)
    browser.open(two_flows.url)
    browser.until(lambda: "B → A" in browser.text and "at risk" in browser.text, "both are shown")
    assert browser.barriers() == []


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("path", ["/", "/?topic=orders&all=1", "/ui/act?verb=restart&flow=A-%3EB"])
def test_nothing_is_wider_than_the_window(browser: Browser, stage: Stage, path: str, width: int) -> None:
    browser.look(width)
    browser.open(f"{stage.url}{path}")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    size = browser.run("return getComputedStyle(document.documentElement).fontSize")
    assert size == ("20px" if width > 2000 else "16px")


def test_focus_and_what_was_selected_outlive_new_figures(browser: Browser, stage: Stage) -> None:
    browser.look(1280)
    browser.open(stage.url)
    browser.until(lambda: "live, as of" in browser.text, "events come")
    browser.run("document.getElementById('open-orders').focus()")
    browser.run("getSelection().selectAllChildren(document.querySelector('h1'))")
    stage.flow = lambda: [a_flow(*in_trouble().partitions.values(), a_partition("another", 0, lag=7654))]
    browser.until(lambda: "7,654" in browser.text or "7,676" in browser.text, "figures change")
    assert browser.run("return document.activeElement.id") == "open-orders"
    assert "A" in browser.run("return String(getSelection())")


def test_a_topic_is_found_and_opened_by_keys_alone_and_the_url_says_so(browser: Browser, stage: Stage) -> None:
    browser.look(1280)
    browser.open(stage.url)
    browser.until(lambda: "live, as of" in browser.text, "events come")
    browser.press(Keys.TAB)
    assert browser.run("return document.activeElement.textContent") == "Skip to content"
    browser.run("document.querySelector('input[name=q]').focus()")
    browser.press("topic-0007")
    browser.until(lambda: "q=topic-0007" in browser.driver.current_url, "the filter is in the URL")
    browser.until(lambda: browser.run("return document.querySelectorAll('#part-topics tbody tr').length") == 1, "one row")
    assert browser.run("return document.activeElement.name") == "q"
    browser.run("document.getElementById('open-topic-0007').focus()")
    browser.press(Keys.ENTER)
    browser.until(lambda: "Next to copy" in browser.text, "the row is open")
    assert browser.run("return document.activeElement.getAttribute('aria-expanded')") == "true"
    assert "topic=topic-0007" in browser.driver.current_url
    browser.driver.back()
    browser.until(lambda: "Next to copy" not in browser.text, "the row is closed again")
    browser.open(browser.driver.current_url)
    assert browser.run("return document.querySelector('input[name=q]').value") == "topic-0007"
    assert browser.problems() == []


def test_a_change_of_state_is_said_and_ticking_figures_are_not(browser: Browser, stage: Stage) -> None:
    browser.look(1280)
    browser.open(stage.url)
    browser.until(lambda: "live, as of" in browser.text, "events come")
    said = "return document.getElementById('announce').textContent"
    assert browser.run(said) == ""
    stage.flow = lambda: [a_flow(*healthy(2))]
    browser.until(lambda: "A->B is running. 0 need attention." in browser.run(said), "the change is announced")


def test_a_lost_connection_greys_the_figures_and_says_as_of_when(browser: Browser, stage: Stage) -> None:
    browser.look(1280)
    browser.open(stage.url)
    browser.until(lambda: "live, as of" in browser.text, "events come")
    stage.over.set()
    stage.door.__exit__()
    browser.until(lambda: "connection lost: as of " in browser.text, "the loss is shown")
    assert "stale" in browser.run("return document.body.className")
    assert browser.run("return getComputedStyle(document.getElementById('part-summary')).filter") == "grayscale(1)"
    assert "Connection lost" in browser.run("return document.getElementById('announce').textContent")
    assert "orders-3 is stopped" in browser.text


def test_figures_of_a_main_loop_that_hangs_turn_grey_too(browser: Browser, stage: Stage) -> None:
    browser.look(1280)
    browser.open(stage.url)
    browser.until(lambda: "live, as of" in browser.text, "events come")
    stage.over.set()
    browser.until(lambda: "the mirror is silent: as of " in browser.text, "the silence is shown")
    assert "stale" in browser.run("return document.body.className")


def test_ten_thousand_partitions_do_not_hold_up_the_browser(browser: Browser, stage: Stage) -> None:
    many = a_flow(*healthy(1000, 10), a_partition("orders", 0, state="stopped", code="TARGET", reason="refused"))
    stage.flow = lambda: [replace(many, taken_ms=now_ms())]
    browser.look(1280)
    stage.door.show(stage.flow())
    browser.open(f"{stage.url}/?all=1&topic=topic-0002")
    browser.until(lambda: "Page 1 of 21" in browser.text and "live, as of" in browser.text, "a page of them is shown")
    assert browser.run("return document.querySelectorAll('*').length") < 2500
    browser.click("#part-topics a[rel=next]")
    browser.until(lambda: "Page 2 of 21" in browser.text, "the next page")
    assert browser.problems() == []


def test_times_are_shown_in_utc_locally_or_as_how_long_ago(browser: Browser, stage: Stage) -> None:
    browser.look(1280)
    browser.open(stage.url)
    browser.until(lambda: "live, as of" in browser.text, "events come")
    browser.click("#zone")
    browser.click("#zone")
    assert "time=ago" in browser.driver.current_url and " s ago" in browser.text
    browser.open(browser.driver.current_url)
    browser.until(lambda: " s ago" in browser.text, "the URL keeps it")
