"""Draws the pictures of the page, at two sizes and in both themes: two clusters, a mirror between them, and a browser.

    PYTHONPATH=tests python docs/pictures/page.py

One record is too large for the target, one group has gone on further than the other, and somebody paused a topic. It needs
Chromium (`apt install chromium chromium-driver`).
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from browser.chromium import browsers
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from stage import LARGE, client_of, commit

from sparkmirror.local import LocalCluster, create_topic, open_clusters

SIZES = {"wide": (1280, 1500), "narrow": (400, 1500)}
TOPICS = {"orders": 4, "payments": 2, "invoices": 1, "sessions": 2}
FILLED_S = float(os.environ.get("PAGE_SECONDS", "100"))
FACTORS = ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.", "offset.storage.")
SETTINGS = {
    "clusters": "east, west",
    "east->west.enabled": "true",
    "topics": ", ".join(TOPICS),
    "sync.group.offsets.enabled": "true",
    **{f"{name}.interval.seconds": "1" for name in ("emit.checkpoints", "sync.group.offsets", "refresh.groups")},
    **{f"{name}replication.factor": "1" for name in FACTORS},
    "sync.topic.configs.enabled": "false",
}
SPARKMIRROR = str(Path(sys.executable).with_name("sparkmirror"))


def load(bootstrap: str, over: threading.Event) -> None:
    """Records at a pace that goes up and down."""
    with contextlib.closing(KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20)) as producer:
        at = 0
        while not over.wait(0.05):
            at += 1
            for number in range(20 + 15 * (at // 100 % 3)):
                for topic, partitions in TOPICS.items():
                    producer.send(topic, b"%d" % number * 40, partition=number % partitions)


def main() -> None:
    """The pictures, beside this file."""
    clusters = LocalCluster("east"), LocalCluster("west")
    with tempfile.TemporaryDirectory() as folder, open_clusters(*clusters) as (east, west), browsers() as browser:
        for topic, partitions in TOPICS.items():
            create_topic(east.bootstrap, topic, partitions=partitions)
        create_topic(west.bootstrap, "east.invoices", partitions=1)
        with contextlib.closing(KafkaAdminClient(bootstrap_servers=west.bootstrap)) as admin:
            small = ConfigResource(ConfigResourceType.TOPIC, "east.invoices", configs={"max.message.bytes": str(LARGE // 2)})
            admin.alter_configs([small])
        over = threading.Event()
        loading = threading.Thread(target=load, args=(east.bootstrap, over))
        loading.start()
        servers = {f"{name}.bootstrap.servers": c.bootstrap for name, c in (("east", east), ("west", west))}
        path = Path(folder, "mm2.properties")
        path.write_text("".join(f"{key} = {value}\n" for key, value in (SETTINGS | servers).items()), encoding="utf-8")
        log = Path(folder, "log")
        command = [SPARKMIRROR, "run", str(path), "--listen", "0"]
        mirror = subprocess.Popen(command, stdout=log.open("w"), stderr=subprocess.STDOUT)
        try:
            browser.until(lambda: "listening on" in log.read_text(), "the mirror listens")
            url = re.findall(r"listening on (http://[0-9.:]+):", log.read_text())[0]
            time.sleep(FILLED_S * 0.6)
            for group, offsets in (("billing", (900, 900)), ("fraud", (30, 40))):
                with contextlib.closing(client_of(east, "east")) as client:
                    commit(client, group, "orders", *offsets)
            with contextlib.closing(KafkaProducer(bootstrap_servers=east.bootstrap)) as producer:
                producer.send("invoices", os.urandom(LARGE), partition=0).get(30)
            subprocess.run([SPARKMIRROR, "pause", str(path), "--topic", "sessions"], check=True, stdout=subprocess.DEVNULL)
            time.sleep(FILLED_S * 0.4)
            for name, (width, height) in SIZES.items():
                for theme in ("light", "dark"):
                    browser.look(width, height, is_dark=theme == "dark")
                    browser.open(f"{url}/?topic=orders")
                    browser.until(lambda: "billing" in browser.text and "live, as of" in browser.text, "groups are read")
                    browser.driver.save_screenshot(str(Path(__file__).with_name(f"page-{name}-{theme}.png")))
        finally:
            mirror.terminate()
            mirror.wait(60)
            over.set()
            loading.join()


if __name__ == "__main__":
    main()
