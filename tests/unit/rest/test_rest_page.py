"""The page as its server sends it: HTML, events, and what its buttons may ask for. No browser, no broker."""

from __future__ import annotations

import base64
import http.client
import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser.flows import HOSTILE, TOO_LARGE, a_flow, a_page, a_partition, a_readiness, healthy, now_ms
from faults.workload import wait_until

from sparkmirror.diagnose.findings import Severity
from sparkmirror.errors import RequestRefused
from sparkmirror.rest import AccessFiles, HttpDoor, address_of
from sparkmirror.rest.page import OperatorPage, routes, wants_html
from sparkmirror.rest.page.readings import FlowReading

pytest.importorskip("jinja2", reason="the page needs jinja2: make install")
SECONDS_MAX = 30.0
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
JSON = {"Content-Type": "application/json"}
STOPPED = a_partition("orders", 3, state="stopped", code="RECORD_TOO_LARGE", reason=TOO_LARGE, lag=17)


class Reader(HTMLParser):
    """The tags and the text of a page; raises for what no browser may be sent."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


class Page:
    """One server, asked as a browser asks."""

    def __init__(self, door: HttpDoor, made: OperatorPage | None = None) -> None:
        self.door, self.made, self.port = door, made, int(door.url.rpartition(":")[2])

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, dict[str, str], str]:
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        caller.request(method, path, body.encode() or None, (BROWSER | named) if "Accept" not in named else named)
        answer = caller.getresponse()
        found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        caller.close()
        return found

    def read(self, path: str, status: int = 200) -> Reader:
        found, _, html = self.ask("GET", path)
        assert found == status, html
        return Reader(html)

    def post(self, body: object, **headers: str) -> tuple[int, dict[str, str]]:
        status, _, text = self.ask("POST", "/ui/act", json.dumps(body), **(JSON | headers))
        return status, json.loads(text)


def groups() -> FlowReading:
    found = {"billing": (Severity.FINE, "same record on both sides", 12), HOSTILE: (Severity.ERROR, "not synced", 3)}
    return FlowReading(now_ms(), 0.1, a_readiness({"orders": found}))


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    made, door = a_page(tmp_path, ["A->B"], lambda name: groups())
    with door:
        door.show([a_flow(*healthy(), STOPPED)])
        yield Page(door, made)


# --- HTML ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "is_html"), [(BROWSER["Accept"], True), ("*/*", False), ("application/json", False), ("", False)]
)
def test_only_a_browser_gets_the_page_at_the_root(page: Page, accept: str, is_html: bool) -> None:
    assert wants_html({"accept": accept}) is is_html
    status, headers, text = page.ask("GET", "/", Accept=accept)
    assert status == 200
    assert headers["content-type"].startswith("text/html" if is_html else "application/json")
    assert ("<!doctype html>" in text) is is_html


def test_nothing_from_elsewhere_is_loaded_and_nothing_written_into_the_page_runs(page: Page) -> None:
    _, headers, html = page.ask("GET", "/")
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src", "form-action")} == {"'self'"}
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    found = Reader(html)
    for _, attributes in found.tags:
        assert "style" not in attributes and not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "action"):
            assert not re.match(r"[a-z]+:|//", attributes.get(name) or "")
    assert [attributes.get("src") for tag, attributes in found.tags if tag == "script"] == ["/ui/static/page.js"]


@pytest.mark.parametrize(("file", "kind"), sorted(routes.STATIC_FILES.items()))
def test_what_the_page_is_made_of_is_in_the_package(page: Page, file: str, kind: str) -> None:
    status, headers, text = page.ask("GET", f"/ui/static/{file}")
    assert (status, headers["content-type"].partition(";")[0], bool(text)) == (200, kind, True)
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("file", ["..%2frouting.py", "%2e%2e/routes.py", "other.js", "page.js%00"])
def test_no_other_file_is_served(page: Page, file: str) -> None:
    assert page.ask("GET", f"/ui/static/{file}")[0] == 404


def test_a_stopped_partition_stands_first_with_its_reason_and_the_command(page: Page) -> None:
    text = page.read("/").text
    assert "degraded" in text and "Is it copying? ▲ partly 1 of 97 partitions stopped." in text
    first = text.partition("Needs attention")[2]
    assert "orders-3 is stopped RECORD_TOO_LARGE" in first
    assert "To skip it: sparkmirror offsets skip mm2.properties --topic orders --partition 3 --to 4712" in first


def test_topics_that_copy_are_folded_until_somebody_wants_to_see_them(page: Page) -> None:
    folded, whole = page.read("/").text, page.read("/?all=1").text
    assert "24 other topics copy as they should" in folded and "topic-0007" not in folded
    assert "topic-0007" in whole and "as they should" not in whole


def test_a_filter_in_the_url_finds_topics_by_name_state_and_group(page: Page) -> None:
    rows = re.compile(r'id="topic-([^"]+)"')
    assert rows.findall(page.ask("GET", "/?q=topic-0007")[2]) == ["topic-0007"]
    assert rows.findall(page.ask("GET", "/?state=stopped")[2]) == ["orders"]
    deadline = time.monotonic() + SECONDS_MAX
    while rows.findall(page.ask("GET", "/?q=BILLING")[2]) != ["orders"]:
        assert time.monotonic() < deadline, "the group is never found"
    assert "None of 25 topics fits the filter" in page.read("/?q=no-such").text


@pytest.mark.parametrize(
    "query", ["page=-1", "page=99999999999999", "sort=%00", "topic=none", "state=%3Cb%3E", "part=x", "q=%FF"]
)
def test_an_odd_address_is_no_error(page: Page, query: str) -> None:
    assert page.ask("GET", f"/?{query}")[0] == 200


def test_hostile_names_are_text(page: Page) -> None:
    flow = a_flow(a_partition("orders", 0, state="stopped", code="TARGET", reason=f"group {HOSTILE} is in the way"))
    flow.stopped_topics[HOSTILE] = f"{HOSTILE} \ud800"
    flow.notes.append(HOSTILE)
    page.door.show([flow])
    deadline = time.monotonic() + SECONDS_MAX
    while HOSTILE[:20] not in (found := page.read("/?topic=orders")).text or "billing" not in found.text:
        assert time.monotonic() < deadline
    assert not any(tag in ("img", "b") and "onerror" in attributes for tag, attributes in found.tags)
    assert sum(tag == "script" for tag, _ in found.tags) == 1
    assert "\x1b" not in found.text and "\u202e" not in found.text


def test_an_unknown_flow_is_a_404_that_names_those_that_there_are(page: Page) -> None:
    assert "A → B" in page.read("/ui/flows/A-%3EC", 404).text.replace("A  →  B", "A → B")


def test_several_flows_are_cards_with_one_word_each(tmp_path: Path) -> None:
    _, door = a_page(tmp_path, ["A->B", "B->A"])
    with door:
        door.show([a_flow(*healthy(2)), a_flow(name="B->A", state="unknown", reason="A does not answer")])
        found = Page(door).read("/")
    assert "✓ running" in found.text and "? unknown A does not answer" in found.text
    classes = [attributes.get("class") or "" for tag, attributes in found.tags if tag == "li"]
    assert [words for words in classes if words.startswith("card")] == ["card tone-good", "card tone-unknown"]


@pytest.mark.parametrize(
    ("state", "tone"),
    [("running", "good"), ("waiting", "warn"), ("unknown", "unknown"), ("failed", "bad"), ("standby", "idle"),
     ("starting", "busy"), ("a new word", "unknown")],
)  # fmt: skip
def test_waiting_and_unknown_are_never_green(tmp_path: Path, state: str, tone: str) -> None:
    _, door = a_page(tmp_path, ["A->B"])
    with door:
        door.show([a_flow(*healthy(1), state=state)])
        found = Page(door).read("/")
    assert [attributes["class"] for _, attributes in found.tags if (attributes.get("class") or "").startswith("hero")] == [
        f"hero tone-{tone}"
    ]


def test_a_mirror_that_has_not_looked_yet_has_a_page(tmp_path: Path) -> None:
    _, door = a_page(tmp_path, ["A->B"])
    with door:
        assert "No flow has been started yet" in Page(door).read("/").text


# --- events --------------------------------------------------------------------------------------------------------


def events(page: Page, path: str) -> Iterator[tuple[str, dict[str, object]]]:
    caller = http.client.HTTPConnection("127.0.0.1", page.port, timeout=SECONDS_MAX)
    caller.request("GET", path)
    answer = caller.getresponse()
    assert answer.getheader("Content-Type", "").startswith("text/event-stream")
    kind = ""
    try:
        while line := answer.readline().decode().rstrip("\n"):
            kind = line.removeprefix("event: ") if line.startswith("event: ") else kind
            if line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))
            if line.startswith(("data: ", "retry: ")):
                answer.readline()
    finally:
        caller.close()


def test_only_the_parts_that_changed_are_sent_again(page: Page) -> None:
    found = events(page, "/ui/events?flow=A-%3EB")
    first = {content["id"]: content["html"] for content in _until_tick(found)}
    assert set(first) == {f"part-{name}" for name in routes.FLOW_FRAGMENTS}
    page.door.show([a_flow(*healthy(), a_partition("orders", 3))])
    deadline = time.monotonic() + SECONDS_MAX
    changed: dict[object, object] = {}
    while "part-attention" not in changed:
        assert time.monotonic() < deadline
        changed |= {content["id"]: content["html"] for content in _until_tick(found)}
    assert "Nothing that this process knows of" in str(changed["part-attention"])
    assert "orders-3 is stopped" in str(first["part-attention"])


def _until_tick(found: Iterator[tuple[str, dict[str, object]]]) -> Iterator[dict[str, object]]:
    for kind, content in found:
        if kind == "tick":
            assert content["now_ms"] >= content["as_of_ms"] > 0  # type: ignore[operator]
            return
        yield content


def test_a_page_opened_before_the_first_look_becomes_the_only_flow_s(tmp_path: Path) -> None:
    _, door = a_page(tmp_path, ["A->B"])
    with door:
        found = events(Page(door), "/ui/events?flow=")
        assert next(found)[0] == "tick"
        door.show([a_flow(*healthy(1))])
        assert next(kind for kind, _ in found if kind != "tick") == "reload"
        assert list(found) == []


def test_the_age_of_the_figures_grows_when_the_main_loop_hangs(page: Page) -> None:
    found = events(page, "/ui/events?flow=A-%3EB")
    ticks = (content for kind, content in found if kind == "tick")
    first, second = next(ticks), next(ticks)
    assert second["as_of_ms"] == first["as_of_ms"] and second["now_ms"] > first["now_ms"]  # type: ignore[operator]


def test_readers_that_are_too_many_are_asked_to_come_later(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "STREAMS_MAX", 1)
    first = events(page, "/ui/events?flow=A-%3EB")
    next(first)
    status, headers, _ = page.ask("GET", "/ui/events?flow=A-%3EB")
    assert (status, headers["retry-after"]) == (503, "5")
    first.close()
    made = page.made
    assert made is not None
    wait_until(lambda: not made.streams, "a reader that went away gives back its place", SECONDS_MAX)


def test_ten_thousand_partitions_are_a_small_page_that_is_made_in_time(tmp_path: Path) -> None:
    _, door = a_page(tmp_path, ["A->B"])
    with door:
        door.show([a_flow(*healthy(1000, 10), STOPPED)])
        page = Page(door)
        began = time.monotonic()
        folded, whole = page.ask("GET", "/")[2], page.ask("GET", "/?all=1&topic=topic-0003")[2]
        took = time.monotonic() - began
    assert len(folded) < 40_000 and len(whole) < 120_000
    assert "Page 1 of 21" in whole
    assert took < 5.0  # 0.2 s on a machine with nothing else to do


# --- actions -------------------------------------------------------------------------------------------------------

RESTART = {"verb": "restart", "flow": "A->B", "topic": "orders", "partition": "3"}


def test_an_action_shows_what_it_touches_and_what_follows_before_its_button(page: Page) -> None:
    text = page.read("/ui/act?verb=restart&flow=A-%3EB&topic=orders&partition=3").text
    assert "1 partition of 1 topic" in text and "orders-3 ✕ stopped RECORD_TOO_LARGE" in text
    assert "What stopped them must be mended before" in text
    assert re.search(r"sparkmirror restart \S+ --topic orders --partition 3", text)


@pytest.mark.parametrize(
    "query", ["verb=drop&flow=A-%3EB", "verb=restart&flow=other", "verb=restart&flow=A-%3EB&partition=3", "verb=restart"]
)
def test_an_action_that_makes_no_sense_is_a_404(page: Page, query: str) -> None:
    assert page.ask("GET", f"/ui/act?{query}")[0] == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "evil.example"}, 403),
    ],
)
def test_another_sites_page_can_ask_for_nothing(
    page: Page, headers: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("sparkmirror.rest.page.actions.restart", lambda *words: asked.append(words))
    assert page.post(RESTART, **headers)[0] == status
    assert asked == []


@pytest.mark.parametrize(
    ("body", "status"),
    [([], 400), ("x", 400), ({"verb": 1}, 400), (RESTART | {"other": "x"}, 400), (RESTART | {"verb": "drop"}, 404),
     (RESTART | {"flow": "B->A"}, 404), (RESTART | {"partition": "-1"}, 404)],
)  # fmt: skip
def test_a_body_that_makes_no_sense_changes_nothing(page: Page, body: object, status: int) -> None:
    found, answer = page.post(body)
    assert (found, answer["error_code"]) == (status, status)


def test_what_the_owner_refuses_is_the_answer(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: object) -> None:
        raise RequestRefused("no process runs A->B", hint="start it")

    monkeypatch.setattr("sparkmirror.rest.page.actions.restart", refuse)
    status, answer = page.post(RESTART, Origin=f"http://127.0.0.1:{page.port}")
    assert (status, answer["message"]) == (RequestRefused.http_status, "no process runs A->B (start it)")


@pytest.mark.parametrize(
    ("password", "status"), [("0123456789abcdef", 200), ("0123456789abcdee", 401), ("", 401)], ids=["token", "other", "none"]
)
def test_a_browser_may_send_the_token_as_a_password(tmp_path: Path, password: str, status: int) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef", encoding="utf-8")
    with HttpDoor(address_of("0", AccessFiles(token=str(token)))) as door:
        sent = base64.b64encode(f"anybody:{password}".encode()).decode()
        found, headers, _ = Page(door).ask("GET", "/", Authorization=f"Basic {sent}")
    assert found == status
    assert status == 200 or 'Basic realm="' in headers["www-authenticate"]


@pytest.mark.parametrize("sent", ["Basic", "Basic !!!", "Basic \xe9", "Digest 0123456789abcdef", "Basic " + "A" * 4001])
def test_an_odd_login_is_refused_and_nothing_else(tmp_path: Path, sent: str) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef", encoding="utf-8")
    with HttpDoor(address_of("0", AccessFiles(token=str(token)))) as door:
        assert Page(door).ask("GET", "/", Authorization=sent)[0] == 401
        assert door.trouble == ""
