"""Clusters and names that tests share, and the proof that no test leaves a process or a folder behind."""

from __future__ import annotations

import os
import random
import secrets
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import hypothesis
import pytest

# kafka-python 3 reads its schemas by a call that only Python 3.11 and 3.12 call deprecated; here it is no error.
SCHEMA_WARNING = "(read|open)_text is deprecated"
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", SCHEMA_WARNING, DeprecationWarning)
    from fake import FakeCluster
    from host import close_host
    from judge.resident import close_resident
    from shared_clusters import ClusterHost, SharedCluster, two_shared_clusters

    from sparkmirror.local import LocalCluster, left_behind
    from sparkmirror.local.processes import ScratchFolder

# The files that take longest, longest first, after the many quick ones: so no process is left with one of them at the end,
# and the brokers are fetched while the quick ones run.
SLOW_FILES = (
    "test_transform_query.py", "test_points.py", "test_connect_transforms.py", "test_mm2_scenarios.py",
    "test_local_clusters.py", "test_doubt.py", "test_security.py", "test_copy_outages.py", "test_cli_on_clusters.py",
    "test_spark_cluster.py", "test_spark_submit.py", "test_records_source.py", "test_handover.py", "test_topologies.py",
    "test_admin.py",
    "test_demo.py", "test_zero_redelivery.py", "test_processes.py", "test_loud_loss.py", "test_offsets_on_clusters.py",
    "test_copy_topics.py", "test_acls_on_clusters.py", "test_owners.py", "test_copy_shapes.py",
    "test_verify_on_clusters.py", "test_client_on_clusters.py", "test_examples.py", "test_kills.py",
    "test_doctor_on_clusters.py",
    "test_inspect_on_clusters.py", "test_copy_state.py", "test_bad_input.py", "test_translate_on_clusters.py",
    "test_flows.py", "test_tokens.py", "test_groups_on_clusters.py", "test_key_stores.py", "test_idle_flow.py",
    "test_handover_groups.py", "test_page_in_browser.py", "test_page_on_clusters.py", "test_broker_contract.py",
    "test_reload_on_clusters.py", "test_reload_of_logins.py",
)  # fmt: skip
# kafka-python, which writes and looks in tests with real brokers, leaves sockets behind when a broker is dead or frozen.
# They are found when garbage is collected, in whatever test that happens.
LEFT_SOCKET = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
CLUSTER_HOST = pytest.StashKey["ClusterHost"]()
SEED = os.environ.get("SPARKMIRROR_SEED") or secrets.token_hex(4)


@dataclass
class Row:
    """What one row of docs/faults.md tells of this run; a test fills it in as it goes."""

    seen: str = ""
    recovered: float | None = None  # seconds from the end of the fault until everything was copied


def pytest_configure(config: pytest.Config) -> None:
    # How long one example takes says something of the machine and what else runs on it, nothing of the code.
    hypothesis.settings.register_profile("any machine", deadline=None)
    hypothesis.settings.load_profile("any machine")
    config.addinivalue_line("markers", "fault(id, ...): the rows of docs/faults.md that this test stages")
    config.addinivalue_line("markers", "fault_mm2(id, ...): the same, with MirrorMaker 2 in our place")
    config.addinivalue_line("filterwarnings", f"ignore:{SCHEMA_WARNING}:DeprecationWarning")


def pytest_sessionstart(session: pytest.Session) -> None:
    if getattr(session.config.option, "numprocesses", None) and not hasattr(session.config, "workerinput"):
        session.config.stash[CLUSTER_HOST] = ClusterHost()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if CLUSTER_HOST in session.config.stash:
        session.config.stash[CLUSTER_HOST].close()
        assert left_behind() == []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(SLOW_FILES)}
    items.sort(key=lambda item: ranks.get(item.path.name, -1))
    for item in items:
        if {"faults", "integration"} & set(item.path.parts):
            item.add_marker(pytest.mark.filterwarnings(LEFT_SOCKET))
        for mark, whose in (("fault", "ours"), ("fault_mm2", "mm2")):
            rows = sorted({row for found in item.iter_markers(mark) for row in found.args})
            item.extra_keyword_matches.update(rows)  # `-k F12` finds the tests of a row, whatever they are called
            item.user_properties += [(whose, " ".join(rows))] if rows else []


def pytest_report_header() -> str:
    return f"seed: {SEED} (SPARKMIRROR_SEED={SEED} repeats this run)"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Randomness of one test, the same for the same seed whatever other tests run."""
    print(f"SPARKMIRROR_SEED={SEED}")
    return random.Random(f"{SEED}/{request.node.nodeid}")


@pytest.fixture
def row(record_property: Callable[[str, object], None]) -> Iterator[Row]:
    """The row of docs/faults.md that this test stages; what it says is stored by faults/recording.py."""
    found = Row()
    yield found
    record_property("seen", found.seen)
    record_property("recovered", "" if found.recovered is None else f"{found.recovered:.1f}")
    record_property("seed", SEED)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the session if a child process or a scratch folder is left at its very end.

    Spark's JVMs that are killed leave folders: they do so in one that is removed, also if this process is killed itself.
    """
    tmp_path_factory.getbasetemp()  # stays where it is, for who looks why a test failed
    scratch = ScratchFolder("tests")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(scratch.path))
        patch.setattr(tempfile, "tempdir", None)
        yield
        close_resident()
        close_host()
    scratch.remove()
    assert left_behind() == []


@pytest.fixture(scope="session")
def two_clusters() -> Iterator[tuple[LocalCluster | SharedCluster, ...]]:
    """Two clusters of one broker, opened together once for all processes of the session: other tests use them, too."""
    with two_shared_clusters() as clusters:
        yield clusters


@pytest.fixture(scope="session")
def source_cluster(two_clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    """The shared source; a test that stops or overloads it must use one of its own."""
    return two_clusters[0]


@pytest.fixture(scope="session")
def target_cluster(two_clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    """The shared target; a test that stops or overloads it must use one of its own."""
    return two_clusters[1]


@pytest.fixture
def fake_cluster() -> Iterator[FakeCluster]:
    """An empty cluster in this process, opened in a millisecond; tests/contract compares it with a real one."""
    with FakeCluster() as cluster:
        yield cluster


@pytest.fixture
def topic_name() -> Callable[..., str]:
    """Makes names that no other test uses: `topic_name("orders")` gives `orders-3fa91c02`."""
    return lambda stem="topic": f"{stem}-{secrets.token_hex(4)}"


@pytest.fixture
def own_cluster() -> Iterator[Callable[..., LocalCluster]]:
    """Opens clusters for one test alone, with LocalCluster's own arguments; they are gone at its end."""
    with ExitStack() as opened:
        yield lambda name="own", **options: opened.enter_context(LocalCluster(name, **options))


@pytest.fixture
def three_brokers(own_cluster: Callable[..., LocalCluster]) -> Callable[..., LocalCluster]:
    """Opens a cluster of three brokers for one test alone."""
    return lambda name="three", **options: own_cluster(name, brokers=3, **options)
