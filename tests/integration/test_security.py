"""Every way to log in copies records, every mistake is told in one sentence, and no secret is seen anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from integration.authority import pkcs12, trust_store
from integration.mirroring import (
    TRACEBACK,
    LiveMirror,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    numbered,
    produce,
    run_cleanly,
    set_topic_config,
    topic_configs,
    write_settings,
)
from integration.secured import MECHANISMS, Files, client_of, documented_rights, set_scram_password
from integration.token_server import TokenServer, token_server
from judge import java_records

from sparkmirror.clusters import (
    Address,
    ClusterClient,
    Committed,
    commit_offsets,
    committed_offsets,
    connect,
    describe_topic_acls,
    list_groups,
)
from sparkmirror.errors import BrokerRefused, ClusterUnreachable, SparkmirrorError
from sparkmirror.local import LocalCluster, open_clusters, perf_produce
from sparkmirror.model import TopicPartition

PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))
RECORDS = 100
TOLD_S_MAX = 30.0


@dataclass
class Secured:
    """The clusters, and what is needed to log in."""

    source: LocalCluster
    target: LocalCluster
    files: Files
    tokens: TokenServer


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    files = Files.make(tmp_path_factory.mktemp("certificates"))
    clusters = open_clusters(files.cluster("secured-a"), files.cluster("secured-b"))
    with clusters as (source, target), token_server("oauth", files.passwords["oauth"]) as tokens:
        for cluster in (source, target):
            set_scram_password(cluster, "scram256", "SCRAM-SHA-256", files.passwords["scram256"])
            set_scram_password(cluster, "scram512", "SCRAM-SHA-512", files.passwords["scram512"])
        yield Secured(source, target, files, tokens)


def secured_flow(secured: Secured, name: str, **more: str) -> dict[str, str]:
    """A flow that logs in on both sides."""
    flow = flow_settings(secured.source, secured.target, alias=name, topics=f"{name}-topic", more=more)
    for side, alias, cluster in (("source", name, secured.source), ("target", f"{name}-to", secured.target)):
        flow[f"{alias}.bootstrap.servers"] = cluster.address_of(name.upper())
        keys = secured.files.of_mechanism(name, side, secured.tokens)
        flow |= {f"{alias}.{key}": text for key, text in keys.items()}
    return flow


# --- copying ---------------------------------------------------------------------------------------------------


@dataclass
class Matrix:
    """One run with all mechanisms: what it said, and what other processes could see of it."""

    sent: dict[str, dict[int, list[bytes]]]
    status: int | None
    output: str
    seen: str
    events: str


@pytest.fixture(scope="module")
def matrix(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    folder = tmp_path_factory.mktemp("matrix")
    create_topics(secured.source, {f"{name}-topic": (2, {}) for name in MECHANISMS})
    sent = {name: {partition: numbered(RECORDS) for partition in range(2)} for name in MECHANISMS}
    for name, partitions in sent.items():
        for partition, values in partitions.items():
            produce(secured.source, f"{name}-topic", partition, values)
    file = write_settings(folder / "mm2.properties", *(secured_flow(secured, name) for name in MECHANISMS))
    events = folder / "events"
    events.mkdir()
    conf = ("spark.eventLog.enabled=true", "spark.eventLog.compress=false", f"spark.eventLog.dir=file://{events}")
    words = [word for setting in conf for word in ("--conf", setting)]
    seen: list[str] = []
    with live_mirror(file, "--once", *words) as mirror:
        process = psutil.Process(mirror.pid)
        deadline = time.monotonic() + 120
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
            seen += _visible(process)
            time.sleep(0.5)
        outcome = mirror.await_end(5)
    told = "".join(path.read_text(errors="replace") for path in events.rglob("*") if path.is_file())
    return Matrix(sent, outcome.status, outcome.output, "\n".join(seen), told)


def _visible(process: psutil.Process) -> list[str]:
    """Arguments and environments of a process and its children."""
    found: list[str] = []
    try:
        for each in (process, *process.children(recursive=True)):
            found += [*each.cmdline(), *(f"{key}={text}" for key, text in each.environ().items())]
    except psutil.Error:
        pass  # it has just ended
    return found


@pytest.mark.parametrize("name", MECHANISMS)
def test_records_are_copied_with_this_login_on_both_sides(name: str, secured: Secured, matrix: Matrix) -> None:
    assert (matrix.status, TRACEBACK in matrix.output) == (0, False), matrix.output
    copied = java_records(secured.target.bootstrap, f"{name}.{name}-topic")
    assert {partition: [record.value for record in records] for partition, records in copied.items()} == matrix.sent[name]


def test_no_secret_is_seen_in_output_arguments_environments_event_log_and_topics(secured: Secured, matrix: Matrix) -> None:
    key = max(secured.files.mirror.read_text().splitlines(), key=len)
    canaries = [*secured.files.passwords.values(), key[:60], *secured.tokens.given]
    assert len(secured.tokens.given) >= 2  # the token's end: driver and tasks each have one
    assert "PYSPARK" in matrix.seen
    assert "SparkListenerApplicationStart" in matrix.events
    stored = b"".join(path.read_bytes() for path in secured.target.log_dirs[1].rglob("*.log"))
    assert b"tls-topic" in stored
    for secret in canaries:
        assert secret not in matrix.output
        assert secret not in matrix.seen
        assert secret not in matrix.events
        assert secret.encode() not in stored


def test_a_large_backlog_comes_through_tls(secured: Secured, tmp_path: Path) -> None:
    """Fetch answers of 16 MB: more than one turn of the loop takes, and more than OpenSSL holds."""
    topic, records = "tls-backlog", 40_000
    create_topics(secured.source, {topic: (2, {})})
    perf_produce(secured.source.bootstrap, topic, records=records, record_bytes=1000)
    flow = secured_flow(secured, "tls") | {"tls->tls-to.topics": topic}
    outcome = run_cleanly(write_settings(tmp_path / "mm2.properties", flow))
    assert sum(log_ends(secured.target, f"tls.{topic}").values()) == records
    assert "no answer for" not in outcome.output  # what is said of a lane that misses bytes


# --- sessions and rotation -------------------------------------------------------------------------------------


@pytest.mark.fault("F36", "F38")
def test_a_session_that_ends_is_renewed_and_a_changed_password_is_told_and_heals(secured: Secured, tmp_path: Path) -> None:
    """F36: the broker ends logins after 3 s; nothing of that is seen, until the password is another one."""
    name, topic, user = "scram512", "scram512-topic-live", ("scram512", "SCRAM-SHA-512")
    create_topics(secured.source, {topic: (1, {})})
    flow = secured_flow(secured, name) | {f"{name}->{name}-to.topics": topic}
    password = secured.files.passwords["scram512"]

    def copied() -> int:
        return log_ends(secured.target, f"{name}.{topic}").get(0, 0)

    with live_mirror(write_settings(tmp_path / "mm2.properties", flow)) as mirror:
        mirror.await_said("running")
        await_true(lambda: f"{name}.{topic}" in _topics(secured.target), what="the remote topic")
        for round_ in range(8):
            produce(secured.source, topic, 0, numbered(10))
            await_true(lambda wanted=10 * (round_ + 1): copied() >= wanted, 10.0, f"round {round_}")  # type: ignore[misc]
            time.sleep(1.0)
        assert "WARN" not in mirror.output.split("running", 1)[1], mirror.output
        said = len(mirror.output)
        set_scram_password(secured.source, *user, "another")
        try:
            mirror.await_said("SCRAM-SHA-512 login of user scram512 was refused", after=said)
        finally:
            set_scram_password(secured.source, *user, password)
        produce(secured.source, topic, 0, numbered(10))
        await_true(lambda: copied() >= 90, what="what came after the trouble")
        outcome = mirror.stop()
    assert (outcome.status, TRACEBACK in outcome.output) == (0, False), outcome.output


def _topics(cluster: LocalCluster) -> set[str]:
    with closing(client_of("direct", cluster.bootstrap, {})) as client:
        return set(client.view(None).topics)


@pytest.mark.fault("F38")
def test_a_client_outlives_its_sessions(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that did not renew its login would not: the broker ends it."""
    address, keys = secured.source.address_of("OAUTH"), secured.files.token(secured.tokens)
    with closing(client_of("A", address, keys)) as client, closing(client_of("A", address, keys)) as careless:
        with monkeypatch.context() as patched:
            patched.setattr("sparkmirror.clusters.connection.SESSION_PART", 1000.0)
            careless.view(())
        began = time.monotonic()
        while time.monotonic() - began < 7:
            client.view(())  # raises if the broker ended the session
            time.sleep(0.3)
        with pytest.raises(ClusterUnreachable, match="closed the connection"):
            careless.view(())


@pytest.mark.fault("F37")
def test_a_certificate_that_is_replaced_is_used_by_the_next_connection(secured: Secured, tmp_path: Path) -> None:
    """F37."""
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


@dataclass
class Mistake:
    """Which listener, with which keys, and what must be said."""

    listener: str
    keys: dict[str, str]
    words: tuple[str, ...]


def mistakes(secured: Secured) -> dict[str, Mistake]:
    files, tls = secured.files, secured.files.trust() | {"security.protocol": "SSL"}
    outlived = files.authority.issue("outlived", from_day=-9, to_day=-2)
    jks = files.folder / "trusted.jks"
    if not jks.exists():
        trust_store(files.authority.file, jks, files.passwords["store"], "JKS")
    keys, trusted = files.stores()
    old = pkcs12(files.intruder, "old-password", "-certpbe", "PBE-SHA1-3DES", "-keypbe", "PBE-SHA1-3DES")
    wrong = {"sasl.jaas.config": files.login("plain")["sasl.jaas.config"].replace("canary", "wrong")}
    scram = files.scram("scram256", "SCRAM-SHA-256")
    own = {"ssl.keystore.type": "PEM"}
    down = {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token"}
    p12 = {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": str(trusted), "ssl.truststore.password": "wrong"}
    return {
        "wrongpassword": Mistake("PLAIN", files.login("plain") | wrong,
                                 ("PLAIN login of user plain was refused", "check username and password")),
        "wrongscram": Mistake("SCRAM256", scram | {"sasl.jaas.config": scram["sasl.jaas.config"].replace("canary", "x")},
                              ("SCRAM-SHA-256 login of user scram256 was refused", "sasl.jaas.config")),
        "expired": Mistake("OLD", tls, ("the broker's certificate expired on 20", "must replace it")),
        "young": Mistake("YOUNG", tls, ("the broker's certificate is not valid before 20",)),
        "otherhost": Mistake("ELSEWHERE", tls, ("is not for 127.0.0.1", "ssl.endpoint.identification.algorithm")),
        "stranger": Mistake("STRANGER", tls, ("not signed by an authority that is trusted", str(files.authority.file))),
        "nocertificate": Mistake("MTLS", tls, ("wants a client certificate", "ssl.keystore.location")),
        "intruder": Mistake("MTLS", tls | own | {"ssl.keystore.location": str(files.intruder)},
                            ("refused our certificate", str(files.intruder), "truststore")),
        "outlived": Mistake("MTLS", tls | own | {"ssl.keystore.location": str(outlived)},
                            ("our own certificate expired on 20", str(outlived))),
        "tlstoplain": Mistake("", tls, ("does this listener speak TLS?",)),
        "plaintotls": Mistake("TLS", {}, ("the listener speaks TLS", "security.protocol = SSL")),
        "nologin": Mistake("PLAIN", tls, ("is the listener's security protocol the configured one?",)),
        "needlesslogin": Mistake("", files.login("plain") | {"security.protocol": "SASL_PLAINTEXT"},
                                 ("wants no SASL login", "security.protocol")),
        "notoffered": Mistake("PLAIN", scram, ("SCRAM-SHA-256 is not offered, only PLAIN", "sasl.mechanism")),
        "tokensdown": Mistake("OAUTH", files.token(secured.tokens) | down,
                              ("token endpoint http://127.0.0.1:1/token cannot be asked", "check sasl.oauthbearer")),
        "tokensrefused": Mistake(
            "OAUTH", files.token(secured.tokens) | {"sasl.oauthbearer.client.credentials.client.secret": "wrong-secret"},
            ("refused client oauth: status 401 (invalid_client)", "clientSecret")),
        "jks": Mistake("TLS", {"security.protocol": "SSL", "ssl.truststore.location": str(jks)},
                       (f"keytool -importkeystore -srckeystore {jks} -destkeystore", "-deststoretype PKCS12")),
        "oldstore": Mistake("MTLS", tls | {"ssl.keystore.location": str(old), "ssl.keystore.password": "old-password"},
                            ("RC2 or 3DES", f"keytool -importkeystore -srckeystore {old}")),
        "storepassword": Mistake("TLS", {"security.protocol": "SSL"} | p12,
                                 (str(trusted), "the password is wrong", "check ssl.truststore.password")),
        "keypassword": Mistake("MTLS", tls | {"ssl.keystore.location": str(keys), "ssl.keystore.password": "wrong"},
                               (str(keys), "the password is wrong")),
        "missing": Mistake("TLS", {"security.protocol": "SSL", "ssl.truststore.location": "/no/such.p12"},
                           ("ssl.truststore.location: /no/such.p12 cannot be read",)),
        "kerberos": Mistake("PLAIN", files.trust() | {"security.protocol": "SASL_SSL"},
                            ("GSSAPI", "pip install 'sparkmirror[kerberos]'")),
    }  # fmt: skip


def trouble_of(alias: str, address: str, keys: dict[str, str]) -> str:
    """What a client of ours says about a cluster, or nothing."""
    with closing(client_of(alias, address, keys)) as client:
        try:
            client.view(())
        except SparkmirrorError as error:
            assert isinstance(error, BrokerRefused | ClusterUnreachable)
            return str(error)
    return ""


@pytest.mark.fault("F37", "F38")
def test_a_plan_tells_every_mistake_in_one_sentence_with_cluster_and_address_and_no_secret(
    secured: Secured, tmp_path: Path
) -> None:
    wrong = mistakes(secured)
    flows = []
    for name, mistake in wrong.items():
        flow = flow_settings(secured.source, secured.target, alias=name, topics="none")
        if mistake.listener:
            flow[f"{name}.bootstrap.servers"] = secured.source.address_of(mistake.listener)
        flows.append(flow | {f"{name}.{key}": text for key, text in mistake.keys.items()})
    file = write_settings(tmp_path / "mm2.properties", *flows)
    began = time.monotonic()
    ended = subprocess.run([PROGRAM, "plan", str(file)], capture_output=True, text=True, check=False, timeout=120)
    assert time.monotonic() - began < TOLD_S_MAX
    assert (ended.returncode, TRACEBACK in ended.stderr) == (2, False), ended.stderr
    print(ended.stderr)
    for name, mistake in wrong.items():
        address = secured.source.address_of(mistake.listener) if mistake.listener else secured.source.bootstrap
        [line] = [line for line in ended.stderr.splitlines() if f"cluster {name} " in line]
        for words in (address, *mistake.words):
            assert words in line, (name, words)
    assert "canary" not in ended.stdout + ended.stderr
    assert "wrong-" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("words", [(), ("--once",)])
def test_a_run_that_cannot_log_in_ends_with_2_at_once(words: tuple[str, ...], secured: Secured, tmp_path: Path) -> None:
    flow = secured_flow(secured, "plain")
    flow["plain-to.sasl.jaas.config"] = flow["plain-to.sasl.jaas.config"].replace("canary", "wrong")
    file = write_settings(tmp_path / "mm2.properties", flow)
    began = time.monotonic()
    call = [PROGRAM, "run", str(file), *words]
    ended = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    assert time.monotonic() - began < TOLD_S_MAX
    assert (ended.returncode, TRACEBACK in ended.stderr) == (2, False), ended.stderr
    address = secured.target.address_of("PLAIN")
    assert f"cluster plain-to at {address}: PLAIN login of user plain was refused" in ended.stderr
    assert "wrong-" not in ended.stdout + ended.stderr


def test_plain_without_tls_is_used_on_this_machine_only(secured: Secured) -> None:
    keys = secured.files.login("plain") | {"security.protocol": "SASL_PLAINTEXT"}
    assert trouble_of("A", secured.source.address_of("OPENPLAIN"), keys) == ""


def test_the_host_name_is_not_checked_where_the_file_says_so(secured: Secured) -> None:
    keys = secured.files.trust() | {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    assert trouble_of("A", secured.source.address_of("ELSEWHERE"), keys) == ""


def test_the_versions_of_tls_are_those_of_the_file(secured: Secured) -> None:
    address, keys = secured.source.address_of("TLS"), secured.files.trust() | {"security.protocol": "SSL"}
    for versions, spoken in (("TLSv1.2", "TLSv1.2"), ("TLSv1.3", "TLSv1.3"), ("TLSv1.1,TLSv1.2,TLSv1.3", "TLSv1.3")):
        assert _version(address, keys | {"ssl.enabled.protocols": versions}) == spoken


def _version(address: str, keys: dict[str, str]) -> str:
    host, _, port = address.rpartition(":")
    with closing(connect(Address(host, int(port)), alias="A", security=keys, timeout_s=5)) as connection:
        return str(connection.sock.version())


# --- rights ----------------------------------------------------------------------------------------------------

EXTRAS = ("offset-syncs.topic.location = source", "lag.group.enabled = true", "sync.topic.acls.enabled = true")


def guarded_flow(secured: Secured, alias: str, reader: str, **more: str) -> dict[str, str]:
    named = more | {"groups": f"{alias}-group"}
    flow = flow_settings(secured.source, secured.target, alias=alias, topics=f"{alias}-guarded", more=named)
    for name, cluster, user in ((alias, secured.source, reader), (f"{alias}-to", secured.target, "writer")):
        flow[f"{name}.bootstrap.servers"] = cluster.address_of("PLAIN")
        flow |= {f"{name}.{key}": text for key, text in secured.files.login(user).items()}
    return flow | {f"{alias}->{alias}-to.{key}": "1" for key in INTERVALS}


INTERVALS = (
    "emit.checkpoints.interval.seconds",
    "emit.heartbeats.interval.seconds",
    "refresh.groups.interval.seconds",
    "sync.group.offsets.interval.seconds",
    "sync.topic.acls.interval.seconds",
    "sync.topic.configs.interval.seconds",
)
ALL_ON = {"sync.group.offsets.enabled": "true", "sync.topic.configs.enabled": "true", "emit.heartbeats.enabled": "true"}


def test_the_rights_of_the_table_are_enough(secured: Secured, tmp_path: Path) -> None:
    """One flow with everything on; one whose source is only read. Then both again, after a kill."""
    source, target = secured.source, secured.target
    read_only = ALL_ON | {
        "offset-syncs.topic.location": "target", "lag.group.enabled": "false", "sync.topic.acls.enabled": "false",
    }  # fmt: skip
    flows = {
        "full": guarded_flow(secured, "full", "watcher", **ALL_ON),
        "calm": guarded_flow(secured, "calm", "reader", **read_only),
    }
    for alias, reader in (("full", "watcher"), ("calm", "reader")):
        names = {"A": alias, "B": f"{alias}-to", "TOPIC": f"{alias}-guarded", "GROUP": f"{alias}-group"}
        for row in documented_rights():
            if alias == "full" and row.only_with == "offset-syncs.topic.location = target":
                continue
            if alias == "calm" and row.only_with in EXTRAS:
                continue
            if row.side == "source":
                row.grant(source, reader, names)
            else:
                row.grant(target, "writer", names)
        create_topics(source, {names["TOPIC"]: (1, {"retention.ms": "12345678"})})
        produce(source, names["TOPIC"], 0, numbered(50))
        with closing(client_of("direct", source.bootstrap, {})) as client:
            commit_offsets(client, names["GROUP"], {TopicPartition(names["TOPIC"], 0): Committed(20, "")})
    file = write_settings(tmp_path / "mm2.properties", *flows.values())
    with closing(client_of("direct", target.bootstrap, {})) as far, live_mirror(file) as mirror, told(mirror):
        for alias in flows:
            place = TopicPartition(f"{alias}.{alias}-guarded", 0)
            await_true(lambda p=place: _committed(far, p) == 20, 45.0, str(place))  # type: ignore[misc]
            set_topic_config(source, f"{alias}-guarded", {"retention.ms": "7654321"})
            await_true(lambda p=place: topic_configs(target, p.topic)["retention.ms"] == "7654321", what=f"{place}")  # type: ignore[misc]
        rights = describe_topic_acls(far) or []
        await_true(lambda: log_ends(target, "heartbeats").get(0, 0) > 2, what="heartbeats")
        await_true(lambda: "User:watcher" in {a.principal for a in describe_topic_acls(far) or []}, what=str(rights))
        mirror.kill()
        output = mirror.output
    outcome = run_cleanly(file, "--take-over")
    for said in (output, outcome.output):
        assert "uthoriz" not in said and "WARN full" not in said and "WARN calm" not in said, said
    with closing(client_of("direct", source.bootstrap, {})) as near:
        names = near.view(None).topics
        assert "mm2-offset-syncs.full-to.internal" in names
        assert [name for name in names if "calm" in name] == ["calm-guarded"]
        assert "connect-MirrorSourceConnector-full-to" in {group.name for group in list_groups(near)}


@contextmanager
def told(mirror: LiveMirror) -> Iterator[None]:
    """Lets a failure show what the mirror said."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\n{mirror.output}") from error


def _committed(client: ClusterClient, place: TopicPartition) -> int | None:
    found = committed_offsets(client, [f"{place.topic.split('.')[0]}-group"])
    [group] = found.values()
    wanted = group.committed.get(place)
    return None if wanted is None else wanted.offset
