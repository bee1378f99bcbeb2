"""Every way to log in copies records, every mistake is told in one sentence, and no secret is seen anywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import psutil
import pytest
from conftest import Row
from integration.guarded import (
    GROUP_AT,
    LOSSES,
    READERS,
    START_S,
    Guarded,
    guarded_mirror,
    names_of,
    remote_of,
    right_of,
    told,
)
from integration.mirroring import (
    TRACEBACK,
    LiveMirror,
    Outcome,
    await_true,
    batch_of,
    create_topics,
    live_mirror,
    log_ends,
    numbered,
    produce,
    run_cleanly,
    run_once,
    set_topic_config,
    topic_configs,
    write_settings,
)
from integration.mistakes import mistaken_flow, mistakes
from integration.secured import (
    MECHANISMS,
    ODD,
    RING,
    SESSION_MS,
    Secured,
    client_of,
    dumped,
    secured_clusters,
    set_scram_password,
)
from integration.sightings import Sightings, page
from judge import java_records

from sparkmirror.clusters import (
    Address,
    Appender,
    ClusterClient,
    committed_offsets,
    connect,
    describe_topic_acls,
    fence,
    list_groups,
    raise_producer_epoch,
)
from sparkmirror.config import load
from sparkmirror.errors import BrokerRefused, ClusterError, ClusterUnreachable, LoginRefused, SparkmirrorError
from sparkmirror.local import LocalCluster
from sparkmirror.local.ports import free_ports
from sparkmirror.model import FlowName, TopicPartition

PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))
RECORDS = 100
BULK_RECORDS, BULK_RECORD_BYTES, BULK_FETCH_BYTES = 20, 1_000_000, 16 << 20
TOLD_S_MAX = 30.0
HEALED_S_MAX = 60.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_clusters(tmp_path_factory.mktemp("certificates")) as clusters:
        yield clusters


# --- copying ---------------------------------------------------------------------------------------------------


@dataclass
class Matrix:
    """One run of the ring of logins: what it copied, what it said, and what others could see of it meanwhile."""

    sent: dict[str, dict[int, list[str]]]
    outcome: Outcome
    copied: dict[str, dict[int, list[str]]]
    seen: Sightings
    events: str


@pytest.fixture(scope="module")
def matrix(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    folder = tmp_path_factory.mktemp("matrix")
    create_topics(secured.source, {f"{name}-topic": (2, {}) for name in RING} | {"tls-bulk": (1, {})})
    sent = {name: {at: [f"{name} {at} {n}" for n in range(RECORDS)] for at in range(2)} for name in RING}
    for name, partitions in sent.items():
        for partition, values in partitions.items():
            produce(secured.source, f"{name}-topic", partition, [value.encode() for value in values])
    produce(secured.source, "tls-bulk", 0, numbered(BULK_RECORDS, size=BULK_RECORD_BYTES), batch=1)
    flows = [
        secured.flow(name, source=name, target=RING[(at + 1) % len(RING)], topics=f"{name}-topic, {name}-bulk")
        for at, name in enumerate(RING)
    ]
    flows[RING.index("scram256")] |= from_provider(secured, folder / "passwords.properties")
    for key in ("max.partition.fetch.bytes", "fetch.max.bytes"):
        flows[RING.index("tls")][f"tls.consumer.{key}"] = str(BULK_FETCH_BYTES)
    events, [port, own_port], metrics = folder / "events", free_ports(2), folder / "metrics.prom"
    events.mkdir()
    conf = {
        "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.dir": f"file://{events}",
        "spark.ui.enabled": "true", "spark.ui.port": str(port),
    }  # fmt: skip
    words = [word for key, text in conf.items() for word in ("--conf", f"{key}={text}")]
    seen = Sightings()
    file = write_settings(folder / "mm2.properties", *flows)
    with live_mirror(file, "--metrics-file", str(metrics), "--listen", str(own_port), *words) as mirror:
        process = psutil.Process(mirror.pid)

        def is_all_seen() -> bool:
            seen.look(process, port, own_port, metrics)
            copied = [name for name in RING if re.search(rf"record_count.*{name}-topic.* {RECORDS}\b", seen.metrics)]
            is_bulk_copied = bool(re.search(rf"record_count.*tls-bulk.* {BULK_RECORDS}\b", seen.metrics))
            return copied == list(RING) and is_bulk_copied and len(seen.answers) == 2 + len(RING)

        await_true(is_all_seen, 120, "figures of everything that is copied")
        outcome = mirror.stop()
    written = "".join(path.read_text(errors="replace") for path in events.rglob("*") if path.is_file())
    copies = {name: [TopicPartition(f"{name}.{name}-topic", at) for at in range(2)] for name in RING}
    found = dumped(secured.target, [place for places in copies.values() for place in places])
    copied = {name: {place.partition: found[place] for place in places} for name, places in copies.items()}
    return Matrix(sent, outcome, copied, seen, written)


def from_provider(secured: Secured, file: Path) -> dict[str, str]:
    """The source's password of the flow `scram256`, kept in another file."""
    password = secured.files.passwords["scram256"]
    file.write_text(f"mirror = {password}\n")
    jaas = secured.files.scram("scram256", "SCRAM-SHA-256")["sasl.jaas.config"]
    return {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "scram256.sasl.jaas.config": jaas.replace(password, f"${{file:{file}:mirror}}"),
    }


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_are_copied_with_this_login_on_this_side(mechanism: str, side: str, matrix: Matrix) -> None:
    """The other side of the flow has another login, or none."""
    assert (matrix.outcome.status, TRACEBACK in matrix.outcome.output) == (0, False), matrix.outcome.output
    at = RING.index(mechanism)
    flow = RING[at if side == "source" else at - 1]
    assert matrix.copied[flow] == matrix.sent[flow]


def test_a_large_backlog_comes_through_tls(secured: Secured, matrix: Matrix) -> None:
    """Fetch answers of 16 MB: more than one turn of the loop takes, and more than OpenSSL holds."""
    assert log_ends(secured.target, "tls.tls-bulk") == {0: BULK_RECORDS}
    assert "no answer for" not in matrix.outcome.output  # what is said of a connection that misses bytes


def test_no_secret_is_seen_in_output_arguments_event_log_spark_ui_metrics_http_and_topics(
    secured: Secured, matrix: Matrix
) -> None:
    key = max(secured.files.mirror.read_text().splitlines(), key=len)
    passwords = [password.removesuffix(ODD) for password in secured.files.passwords.values()]
    canaries = [*passwords, key[:60], *secured.tokens.given]
    assert len(secured.tokens.given) >= 2  # the token's end: driver and tasks each have one
    stored = b"".join(path.read_bytes() for path in secured.target.log_dirs[1].rglob("*.log"))
    seen = matrix.seen
    places: Mapping[str, tuple[str, str]] = {
        "output": (matrix.outcome.output, "stopped records="),
        "arguments and environments": ("\n".join(seen.arguments), "PYSPARK"),
        "event log": (matrix.events, "SparkListenerApplicationStart"),
        "Spark UI": ("\n".join(seen.pages.values()), "tls->tls-to slot 0"),
        "metrics": (seen.metrics, "record_count"),
        "HTTP": ("\n".join(seen.answers.values()), '"remote_topic": "tls.tls-topic"'),
        "topics of the target": (stored.decode("latin-1"), "tls-topic"),
    }
    assert {name: word in text for name, (text, word) in places.items()} == dict.fromkeys(places, True)
    assert [page for page in ("environment", "jobs", "stages") if not any(page in seen for seen in seen.pages)] == []
    assert [(name, secret) for name, (text, _) in places.items() for secret in canaries if secret in text] == []


# --- sessions and rotation -------------------------------------------------------------------------------------


@pytest.mark.fault("F36")
def test_a_session_that_ends_is_renewed_and_a_changed_password_is_told_and_heals(
    secured: Secured, tmp_path: Path, row: Row
) -> None:
    """The broker ends logins every few seconds; nothing of that is seen, until the password is another one."""
    topic, user, password = "sessions", ("scram512", "SCRAM-SHA-512"), secured.files.passwords["scram512"]
    create_topics(secured.source, {topic: (1, {})})
    sent: list[bytes] = []

    def send() -> None:
        sent.extend(numbered(10, first=len(sent)))
        produce(secured.source, topic, 0, sent[-10:])

    flow = secured.flow(topic, source="scram512", target="scram512", topics=topic)
    remote = f"{topic}.{topic}"
    with live_mirror(write_settings(tmp_path / "mm2.properties", flow), alone=True) as mirror, told(mirror):
        # The flow is "running" within a second; the partition copies when Spark has started its slot.
        mirror.await_said(f"{topic}-0 copying", START_S)
        assert pages_of(mirror) == []  # Spark's are off unless somebody wants them
        copying, began = len(mirror.output), time.monotonic()
        while time.monotonic() - began < 2.2 * SESSION_MS / 1000:
            send()
            await_copied(secured.target, remote, len(sent))
            time.sleep(0.5)
        assert "WARN" not in mirror.output[copying:]
        said, changed = len(mirror.output), time.monotonic()
        set_scram_password(secured.source, *user, "another")
        try:
            reason = re.compile(r" waiting.*SCRAM-SHA-512 login of user scram512 was refused")
            await_true(lambda: reason.search(mirror.output[said:]), TOLD_S_MAX, "why the flow waits")
            row.seen = f"a changed password was told after {time.monotonic() - changed:.1f} s"
        finally:
            set_scram_password(secured.source, *user, password)
        healed = time.monotonic()
        send()
        await_copied(secured.target, remote, len(sent))
        row.recovered = time.monotonic() - healed
        outcome = mirror.stop()
    assert (outcome.status, TRACEBACK in outcome.output) == (0, False), outcome.output
    assert [record.value for record in java_records(secured.target.bootstrap, remote)[0]] == sent


def await_copied(target: LocalCluster, remote: str, records: int) -> None:
    """Until the copy holds so many, neither fewer nor more."""
    await_true(lambda: log_ends(target, remote) == {0: records}, HEALED_S_MAX, f"{records} records in {remote}")


def pages_of(mirror: LiveMirror) -> list[str]:
    """Web servers among the ports that a mirror's processes listen on."""
    found = []
    for process in psutil.Process(mirror.pid).children(recursive=True):
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                with suppress(OSError, HTTPException):  # something else than a web server
                    found.append(page(f"http://127.0.0.1:{connection.laddr.port}/"))
    return found


def test_a_client_outlives_its_sessions(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that did not renew its login would not: the broker ends it."""
    address, keys = secured.source.address_of("OAUTH"), secured.files.token(secured.tokens)
    with closing(client_of("A", address, keys)) as client, closing(client_of("A", address, keys)) as careless:
        with monkeypatch.context() as patched:
            patched.setattr("sparkmirror.clusters.connection.SESSION_PART", 1000.0)
            careless.view(())
        began = time.monotonic()
        while time.monotonic() - began < 1.3 * SESSION_MS / 1000:
            client.view(())  # raises if the broker ended the session
            time.sleep(0.3)
        with pytest.raises(ClusterUnreachable, match="closed the connection"):
            careless.view(())


def test_an_appender_outlives_its_sessions(secured: Secured) -> None:
    address, keys = secured.target.address_of("SCRAM512"), secured.files.scram("scram512", "SCRAM-SHA-512")
    place = TopicPartition("appended", 0)
    create_topics(secured.target, {place.topic: (1, {})})
    with closing(client_of("B", address, keys)) as client:
        appender = Appender(client)
        began, sent = time.monotonic(), 0
        while time.monotonic() - began < 1.3 * SESSION_MS / 1000:
            assert appender.send_once({place: batch_of([b"%d" % sent])}) == {place: sent}
            sent += 1
            time.sleep(0.3)


@pytest.mark.nightly
@pytest.mark.fault("F36")
def test_a_transform_outlives_the_sessions_of_both_sides(secured: Secured, tmp_path: Path) -> None:
    topic, sent = "shouted", []
    create_topics(secured.source, {topic: (1, {})})
    shout = "select * except (value), concat(value, binary('!')) as value from records"
    more = {"transform.shout.topics": topic, "transform.shout.sql": shout}
    flow = secured.flow(topic, source="scram512", target="scram512", topics=topic, more=more)
    with live_mirror(write_settings(tmp_path / "mm2.properties", flow)) as mirror, told(mirror):
        mirror.await_said(f"{topic}-0 copying", START_S)
        began = time.monotonic()
        while time.monotonic() - began < 4 * SESSION_MS / 1000:
            sent += numbered(10, first=len(sent))
            produce(secured.source, topic, 0, sent[-10:])
            await_copied(secured.target, f"{topic}.{topic}", len(sent))
        outcome = mirror.stop()
    assert (outcome.status, "WARN" in outcome.output[outcome.output.index("copying") :]) == (0, False), outcome.output
    copied = java_records(secured.target.bootstrap, f"{topic}.{topic}")[0]
    assert [record.value for record in copied] == [value + b"!" for value in sent]


@pytest.mark.fault("F37")
def test_a_certificate_that_is_replaced_is_used_by_the_next_connection(secured: Secured, tmp_path: Path) -> None:
    pem = tmp_path / "mirror.pem"
    keys = secured.files.trust() | {
        "security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem),
    }  # fmt: skip
    for file, is_ours in ((secured.files.mirror, True), (secured.files.intruder, False), (secured.files.mirror, True)):
        shutil.copy(file, tmp_path / "new")
        os.replace(tmp_path / "new", pem)
        told = trouble_of("A", secured.source.address_of("MTLS"), keys)
        assert (told == "") is is_ours, told


# --- mistakes --------------------------------------------------------------------------------------------------


def trouble_of(alias: str, address: str, keys: dict[str, str]) -> str:
    """What a client of ours says about a cluster, or nothing."""
    with closing(client_of(alias, address, keys)) as client:
        try:
            client.view(())
        except SparkmirrorError as error:
            assert isinstance(error, BrokerRefused | ClusterUnreachable)
            return str(error)
    return ""


def test_a_login_or_certificate_that_is_refused_is_one_error_for_every_client(secured: Secured) -> None:
    ambiguous = {"tlstoplain", "nologin"}  # the broker just closes the connection, as one that dies does
    for name, mistake in mistakes(secured).items():
        client = client_of("A", mistake.address(secured.source), mistake.keys)
        with closing(client), pytest.raises(ClusterError) as caught:
            client.retry(lambda client=client: client.view(()), timeout_s=0)
        assert isinstance(caught.value, LoginRefused) is (name not in ambiguous), (name, caught.value)


@pytest.mark.fault("F37", "F38")
def test_a_plan_tells_every_mistake_of_both_sides_in_one_sentence_with_cluster_and_address_and_no_secret(
    secured: Secured, tmp_path: Path, row: Row
) -> None:
    wrong = mistakes(secured)
    flows = [mistaken_flow(secured, name, mistake, "source", "target") for name, mistake in wrong.items()]
    file = write_settings(tmp_path / "mm2.properties", *flows)
    began = time.monotonic()
    ended = subprocess.run([PROGRAM, "plan", str(file)], capture_output=True, text=True, check=False, timeout=280)
    row.seen = f"{2 * len(wrong)} mistakes of login and TLS, told by one plan in {time.monotonic() - began:.1f} s"
    assert (ended.returncode, TRACEBACK in ended.stderr) == (2, False), ended.stderr
    print(ended.stderr)
    for name, mistake in wrong.items():
        for alias, cluster in ((name, secured.source), (f"{name}-to", secured.target)):
            [line] = [line for line in ended.stderr.splitlines() if f"cluster {alias} " in line]
            for words in (mistake.address(cluster), *mistake.words):
                assert words in line, (alias, words)
    assert "canary" not in ended.stdout + ended.stderr
    assert "wrong-" not in ended.stdout + ended.stderr


FOREMOST = ("wrongpassword", "expired", "otherhost", "stranger")


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "wrongpassword" else [pytest.mark.nightly]) for name in FOREMOST],
)
def test_a_run_that_cannot_log_in_ends_with_2_at_once(name: str, side: str, secured: Secured, tmp_path: Path) -> None:
    mistake = mistakes(secured)[name]
    file = write_settings(tmp_path / "mm2.properties", mistaken_flow(secured, name, mistake, side))
    alias, cluster = (name, secured.source) if side == "source" else (f"{name}-to", secured.target)
    for words in ((), ("--once",)):
        began = time.monotonic()
        call = [PROGRAM, "run", str(file), *words]
        ended = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
        assert time.monotonic() - began < TOLD_S_MAX
        assert (ended.returncode, TRACEBACK in ended.stderr) == (2, False), ended.stderr
        for expected in (f"cluster {alias} at {mistake.address(cluster)}: ", *mistake.words):
            assert expected in ended.stderr
        assert "wrong-" not in ended.stdout + ended.stderr


def test_plain_and_scram_without_tls_are_used_on_this_machine(secured: Secured) -> None:
    for keys in (secured.files.login("plain"), secured.files.scram("scram256", "SCRAM-SHA-256")):
        assert trouble_of("A", secured.source.address_of("BARE"), keys | {"security.protocol": "SASL_PLAINTEXT"}) == ""


def test_without_a_truststore_the_authorities_of_the_system_are_trusted(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL reads them where this variable says."""
    address = secured.source.address_of("TLS")
    assert "trusted is the system's own authorities" in trouble_of("A", address, {"security.protocol": "SSL"})
    monkeypatch.setenv("SSL_CERT_FILE", str(secured.files.authority.file))
    # An unknown version is left out, and makes these settings differ from those of the context that is kept.
    keys = {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1,TLSv1.2,TLSv1.3"}
    assert trouble_of("A", address, keys) == ""


def test_the_host_name_is_not_checked_where_the_file_says_so(secured: Secured) -> None:
    keys = secured.files.trust() | {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    assert trouble_of("A", secured.source.address_of("ELSEWHERE"), keys) == ""
    told = trouble_of("A", secured.source.address_of("STRANGER"), keys)
    assert "not signed by an authority that is trusted" in told  # which is checked all the same


def test_the_versions_of_tls_are_those_of_the_file(secured: Secured) -> None:
    address, keys = secured.source.address_of("TLS"), secured.files.trust() | {"security.protocol": "SSL"}
    for versions, spoken in (("TLSv1.2", "TLSv1.2"), ("TLSv1.3", "TLSv1.3"), ("TLSv1.1,TLSv1.2,TLSv1.3", "TLSv1.3")):
        assert _version(address, keys | {"ssl.enabled.protocols": versions}) == spoken


def _version(address: str, keys: dict[str, str]) -> str:
    host, _, port = address.rpartition(":")
    with closing(connect(Address(host, int(port)), alias="A", security=keys, timeout_s=5)) as connection:
        return str(connection.sock.version())


# --- rights ----------------------------------------------------------------------------------------------------


@dataclass
class GuardedRun:
    """Both flows with exactly their rights, and the process that runs them."""

    flows: Guarded
    mirror: LiveMirror


@pytest.fixture(scope="module")
def guarded(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedRun]:
    flows = Guarded.make(secured, tmp_path_factory.mktemp("guarded"))
    with guarded_mirror(flows) as mirror:
        yield GuardedRun(flows, mirror)


def test_the_rights_of_the_table_are_enough(secured: Secured, guarded: GuardedRun) -> None:
    """One flow with everything on; one whose source is only read; one that keeps names."""
    source, target, mirror = secured.source, secured.target, guarded.mirror
    with closing(client_of("direct", target.bootstrap, {})) as far, told(mirror):
        for alias in READERS:
            place = TopicPartition(remote_of(alias), 0)
            group = f"{alias}-group"
            await_true(
                lambda g=group, p=place: _committed(far, g, p) == GROUP_AT, HEALED_S_MAX, str(place)  # type: ignore[misc]
            )
            set_topic_config(source, f"{alias}-guarded", {"retention.ms": "7654321"})
            await_true(
                lambda p=place: topic_configs(target, p.topic)["retention.ms"] == "7654321", HEALED_S_MAX, f"{place}"  # type: ignore[misc]
            )
        await_true(lambda: log_ends(target, "heartbeats").get(0, 0) > 2, HEALED_S_MAX, "heartbeats")
        await_true(
            lambda: "User:watcher" in {acl.principal for acl in describe_topic_acls(far) or []}, HEALED_S_MAX, "rights"
        )
        assert "AUTHORIZATION_FAILED" not in mirror.output
    with closing(client_of("A", source.address_of("PLAIN"), secured.files.login("watcher"))) as watcher:
        found = committed_offsets(watcher, ["full-group", "calm-group"])  # the second one without a right for it
        assert {group: offsets.error for group, offsets in found.items()} == {"full-group": 0, "calm-group": 30}
        assert len(found["full-group"].committed) == 1
    with closing(client_of("direct", source.bootstrap, {})) as near:
        names = sorted(near.view(None).topics)
        assert "mm2-offset-syncs.full-to.internal" in names
        assert [name for name in names if "calm" in name or "same" in name] == ["calm-guarded", "same-guarded"]
        await_true(
            lambda: "connect-MirrorSourceConnector-full-to" in {group.name for group in list_groups(near)}, what="lag group"
        )


EACH_PUSH = ("READ source", "WRITE target")


@pytest.mark.fault("F36")
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[] if what in EACH_PUSH else [pytest.mark.nightly]) for what in LOSSES]
)
def test_a_right_that_is_taken_away_is_told_with_who_needs_it_and_copying_goes_on_when_it_is_back(
    what: str, secured: Secured, guarded: GuardedRun, row: Row
) -> None:
    loss, flows, mirror = LOSSES[what], guarded.flows, guarded.mirror
    others = [alias for alias in READERS if alias != loss.alias]
    with told(mirror):
        said, began = len(mirror.output), time.monotonic()
        with flows.without(loss.alias, loss.right, loss.operations):
            for alias in READERS:
                flows.send(alias)
            mirror.await_said(loss.told, TOLD_S_MAX, after=said)
            row.seen = f"{what}: told after {time.monotonic() - began:.1f} s"
            for other in others:
                await_copied(secured.target, remote_of(other), len(flows.sent[other]))
        restored, is_over = time.monotonic(), len(mirror.output)
        flows.send(loss.alias)
        await_copied(secured.target, remote_of(loss.alias), len(flows.sent[loss.alias]))
        row.recovered = time.monotonic() - restored
        lines = [line for line in mirror.output[said:].splitlines() if loss.told in line]
        if not any(word in lines[0] for word in (" waiting", " stopped")):
            mirror.await_said("works again", HEALED_S_MAX, after=is_over)
        assert len(lines) <= 5, lines  # and not once for every try


def test_after_a_kill_the_same_rights_are_enough_and_every_record_is_there_once(
    secured: Secured, guarded: GuardedRun
) -> None:
    flows, mirror = guarded.flows, guarded.mirror
    mirror.kill()
    for alias in READERS:
        flows.send(alias)
    outcome = run_cleanly(flows.file, "--take-over")
    assert "AUTHORIZATION_FAILED" not in outcome.output
    for alias in READERS:
        assert f"WARN {alias}" not in outcome.output
    assert copies_of(secured.target) == flows.sent


def plan_of(flows: Guarded) -> subprocess.CompletedProcess[str]:
    """What a run would do."""
    return subprocess.run([PROGRAM, "plan", str(flows.file)], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.nightly
def test_a_run_that_is_to_finish_stops_what_it_has_no_right_for_and_copies_the_rest(
    secured: Secured, guarded: GuardedRun
) -> None:
    flows, unwritable, hidden = guarded.flows, LOSSES["WRITE target"], right_of("source", "Topic", "TOPIC")
    guarded.mirror.kill()
    for alias in READERS:
        flows.send(alias)
    with (
        flows.without("calm", unwritable.right, unwritable.operations),
        flows.without("same", hidden, ["DescribeConfigs"]),
    ):
        planned = plan_of(flows)
        outcome = run_once(flows.file, "--take-over")
    assert planned.returncode == 4, planned.stdout + planned.stderr
    assert "a run waits: RIGHTS: writer lacks Write on 1 remote topic" in planned.stdout, planned.stdout
    assert "a run stops: TOPIC: " in planned.stdout, planned.stdout
    assert "user reader needs DescribeConfigs on topic same-guarded" in planned.stdout, planned.stdout
    assert (outcome.status, TRACEBACK in outcome.output) == (4, False), outcome.output
    assert "user writer needs Write on topic calm.calm-guarded" in outcome.output
    assert "user reader needs DescribeConfigs on topic same-guarded" in outcome.output
    assert copies_of(secured.target)["full"] == flows.sent["full"]
    run_cleanly(flows.file)
    assert copies_of(secured.target) == flows.sent
    planned = plan_of(flows)
    assert (planned.returncode, planned.stderr) == (0, ""), "the rights of a run are enough for a plan\n" + planned.stdout


@pytest.mark.nightly
def test_a_fence_that_is_refused_for_one_topic_holds_up_no_other(secured: Secured, guarded: GuardedRun) -> None:
    """After a crash every partition must be fenced, which takes Write; without it that partition alone waits."""
    flows, unwritable = guarded.flows, LOSSES["WRITE target"]
    guarded.mirror.kill()
    with guarded_mirror(flows) as open_everywhere:
        open_everywhere.kill()
    flow = load(flows.file).flow(FlowName("calm", "calm-to"))
    copy, ledger = TopicPartition(remote_of("calm"), 0), TopicPartition("mm2-ledger.calm.internal", 0)
    name = f"sparkmirror-{flow.name}"
    with flows.without("calm", unwritable.right, unwritable.operations):
        with closing(ClusterClient(flow.target)) as client:
            refused = fence(client, name, raise_producer_epoch(client, name, None), [copy, ledger])
        assert set(refused) == {copy}
        assert f"needs Write on topic {copy.topic}" in refused[copy].message
        for alias in READERS:
            flows.send(alias)
        with live_mirror(flows.file, "--take-over") as mirror, told(mirror):
            mirror.await_said(f"calm-guarded-0 waiting RIGHTS: calm-guarded-0: cluster calm-to: fence of {copy}", START_S)
            others = {alias: sent for alias, sent in flows.sent.items() if alias != "calm"}
            await_true(lambda: copies_of(secured.target).items() >= others.items(), HEALED_S_MAX, "the other flows")
            assert copies_of(secured.target)["calm"] != flows.sent["calm"]
            unwritable.right.grant(*flows.holder(unwritable.right.side, "calm"), names_of("calm"))
            await_true(lambda: copies_of(secured.target) == flows.sent, HEALED_S_MAX + 60, "once it may be written")
            assert mirror.stop().status == 0


def copies_of(target: LocalCluster) -> dict[str, list[str]]:
    """What the flows with few rights have copied."""
    places = {alias: TopicPartition(remote_of(alias), 0) for alias in READERS}
    found = dumped(target, list(places.values()))
    return {alias: found[place] for alias, place in places.items()}


def _committed(client: ClusterClient, group: str, place: TopicPartition) -> int | None:
    wanted = committed_offsets(client, [group])[group].committed.get(place)
    return None if wanted is None else wanted.offset
