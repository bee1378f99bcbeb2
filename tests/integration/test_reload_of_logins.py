"""A password that is changed behind a config provider is taken without a restart: nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.mirroring import (
    TRACEBACK,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    numbered,
    produce,
    write_settings,
)
from integration.secured import SCRAM_MODULE, canary, set_scram_password
from judge import compare, java_records

from sparkmirror.local import Listener

TAKEN_S_MAX = 40.0
USER, MECHANISM = "mirror", "SCRAM-SHA-256"
JAAS = '{module} required username="{user}" password="{password}";'
LISTENER = {
    "sasl.enabled.mechanisms": MECHANISM, "scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
}  # fmt: skip
PROVIDER = {
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}


@pytest.mark.timeout(400)
def test_a_password_that_changes_in_the_file_of_a_provider_is_taken_and_a_wrong_one_is_not(
    own_cluster, tmp_path: Path
) -> None:
    cluster = own_cluster("scram", listeners=[Listener("SCRAM", "SASL_PLAINTEXT", LISTENER)])
    passwords = [canary(name) for name in ("first", "second", "third")]
    secret, topic, remote = tmp_path / "secrets.properties", "rotated", "rotated.rotated"

    def write(password: str) -> None:
        fresh = tmp_path / "fresh"
        fresh.write_text(f"jaas = {JAAS.format(module=SCRAM_MODULE, user=USER, password=password)}\n")
        fresh.replace(secret)

    set_scram_password(cluster, USER, MECHANISM, passwords[0])
    write(passwords[0])
    create_topics(cluster, {topic: (1, {})})
    settings = PROVIDER | flow_settings(cluster, cluster, alias=topic, topics=topic)
    for alias in (topic, f"{topic}-to"):
        settings |= {
            f"{alias}.bootstrap.servers": cluster.address_of("SCRAM"), f"{alias}.security.protocol": "SASL_PLAINTEXT",
            f"{alias}.sasl.mechanism": MECHANISM, f"{alias}.sasl.jaas.config": f"${{file:{secret}:jaas}}",
        }  # fmt: skip

    with live_mirror(write_settings(tmp_path / "mm2.properties", settings)) as mirror:

        def copies(count: int) -> None:
            produce(cluster, topic, 0, numbered(100))
            await_true(lambda: log_ends(cluster, remote)[0] >= count, 60, f"{count} records: {mirror.output[-2000:]}")

        mirror.await_said(f"{topic}-0 copying", 120)
        copies(100)
        said = len(mirror.output)
        write(passwords[1])  # which the cluster does not know yet
        mirror.await_said("was changed and cannot be used: cluster rotated", TAKEN_S_MAX, after=said)
        copies(200)
        set_scram_password(cluster, USER, MECHANISM, passwords[1])
        mirror.await_said("jaas.config: [hidden] → [hidden]", TAKEN_S_MAX, after=said)
        copies(300)
        for worker in mirror.workers():  # another one logs in anew
            worker.kill()
        copies(400)
        outcome = mirror.stop()
    assert (outcome.status, TRACEBACK in outcome.output) == (0, False), outcome.output
    assert compare(java_records(cluster.bootstrap, topic), java_records(cluster.bootstrap, remote)) == []
    assert not any(password in outcome.output for password in passwords)
