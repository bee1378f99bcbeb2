"""The page of a running mirror on real clusters: what a person sees in a browser, and does there. Java's consumer judges."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("selenium", reason="the page's tests need selenium: make install")
from browser.chromium import Browser, browsers
from integration.mirroring import (
    LiveMirror,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    numbered,
    produce,
    write_settings,
)
from integration.scenario import commit
from judge import java_records

from sparkmirror.local import LocalCluster

ALIAS = "seen"
CALM, LARGE = "seen-calm", "seen-large"
GROUP = '<b onclick="x">readers</b>'
FLOW = f"{ALIAS}->{ALIAS}-to"
TOO_LARGE = b"x" * 200_000
VALUES, MORE = numbered(20), numbered(30, first=20)


@dataclass(frozen=True)
class Desk:
    """Somebody at the page of a running mirror."""

    mirror: LiveMirror
    browser: Browser
    url: str

    def open(self, path: str) -> None:
        self.browser.open(f"{self.url}{path}")

    def until(self, text: str) -> None:
        """Until it can be read, live."""
        self.browser.until(lambda: text in self.browser.text, f"{text!r} is shown ({self.mirror.output[-2000:]})", 90)

    def act(self, verb: str, typed: str = "") -> None:
        """Reads the plan of an action on the flow, and carries it out."""
        self.open(f"/ui/act?verb={verb}&flow={FLOW.replace('>', '%3E')}")
        if typed:
            assert self.browser.run("return document.querySelector('form.act button').disabled")
            self.browser.type("form.act input[name=typed]", typed)
        self.browser.click("form.act button[type=submit]")
        self.until("Done: ")


def port_of(mirror: LiveMirror) -> int:
    """Where it listens."""
    mirror.await_said("listening on http://127.0.0.1:")
    return int(re.findall(r"listening on http://127\.0\.0\.1:(\d+)", mirror.output)[0])


@pytest.fixture(scope="module")
def desk(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    with browsers() as browser:
        create_topics(source_cluster, {CALM: (2, {}), LARGE: (1, {"max.message.bytes": "1000000"})})
        create_topics(target_cluster, {f"{ALIAS}.{LARGE}": (1, {"max.message.bytes": "100000"})})
        for partition in range(2):
            produce(source_cluster, CALM, partition, VALUES)
        produce(source_cluster, LARGE, 0, [*numbered(3), TOO_LARGE, *numbered(3)])
        commit(source_cluster, GROUP, CALM, {0: 15, 1: 20})
        more = {"emit.checkpoints.interval.seconds": "1", "refresh.groups.interval.seconds": "1", "groups": ".*"}
        settings = flow_settings(source_cluster, target_cluster, alias=ALIAS, topics="seen-.*", more=more)
        path = write_settings(tmp_path_factory.mktemp("seen") / "mm2.properties", settings)
        with live_mirror(path, "--listen", "0") as mirror:
            browser.look(1280)
            yield Desk(mirror, browser, f"http://127.0.0.1:{port_of(mirror)}")


def test_a_stopped_partition_stands_there_with_its_reason_lag_and_command(desk: Desk) -> None:
    desk.open("/")
    desk.until(f"{LARGE}-0 is stopped")
    desk.until("degraded")
    text = desk.browser.text
    assert "RECORD_TOO_LARGE" in text
    assert "4 records not copied there" in text
    assert "offsets skip" in text or "max.message.bytes=" in text or "sparkmirror restart" in text
    assert desk.browser.problems() == []


def test_groups_and_their_lag_stand_in_the_row_of_their_topic(desk: Desk) -> None:
    desk.open(f"/?topic={CALM}")
    desk.until("Next to copy")
    desk.until(GROUP)
    rows = desk.browser.run("return [...document.querySelectorAll('.inner tr')].map(row => row.innerText)")
    [row] = [row for row in rows if "readers" in row]
    assert "5" in row.split()
    assert desk.browser.run("return document.querySelectorAll('main b[onclick]').length") == 0


def test_pause_and_resume_do_what_their_plan_says(
    desk: Desk, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    desk.act("pause", typed=FLOW)
    produce(source_cluster, CALM, 0, MORE)
    desk.open("/")
    desk.until("the flow is paused since")
    assert "by no token from 127.0.0.1, on the page" in desk.browser.text
    desk.until("34")  # the lag that was made on purpose: 30 here, and 4 behind the large record
    assert log_ends(target_cluster, f"{ALIAS}.{CALM}") == {0: 20, 1: 20}
    desk.act("resume")
    await_true(lambda: log_ends(target_cluster, f"{ALIAS}.{CALM}") == {0: 50, 1: 20}, 90, desk.mirror.output)
    assert [record.value for record in java_records(target_cluster.bootstrap, f"{ALIAS}.{CALM}")[0]] == [*VALUES, *MORE]
    desk.open("/")
    desk.until("What happened")
    desk.until("by no token from 127.0.0.1, on the page")
    assert desk.browser.problems() == []
