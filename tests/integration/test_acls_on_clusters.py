"""Rights that Kafka's own kafka-acls sets on the source and reads back on the target."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest
from integration.mirroring import await_true, create_topics

from sparkmirror.clusters import ClusterClient, create_topic_acls, describe_topic_acls
from sparkmirror.config import FlowSettings, parse
from sparkmirror.config.values import ClusterSettings
from sparkmirror.control import AclSync
from sparkmirror.local import LocalCluster, open_clusters
from sparkmirror.local.tools import java_tool
from sparkmirror.model import Acl, FlowName

ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
GUARDED = AUTHORIZER | {"super.users": "User:ANONYMOUS"}
RESOURCE = re.compile(r"resourceType=TOPIC, name=(.*), patternType=(LITERAL|PREFIXED)\)")
ENTRY = re.compile(r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(ALLOW|DENY)\)")


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two clusters with Kafka's own authorizer; the tests are super users on both."""
    with open_clusters(LocalCluster("A", overrides=GUARDED), LocalCluster("B", overrides=GUARDED)) as (source, target):
        yield source, target


@contextlib.contextmanager
def clients(source: LocalCluster, target: LocalCluster) -> Iterator[tuple[ClusterClient, ClusterClient]]:
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(contextlib.closing(client_of(name, at))) for name, at in (("A", source), ("B", target))]
        yield made[0], made[1]


def client_of(alias: str, cluster: LocalCluster) -> ClusterClient:
    host, _, port = cluster.bootstrap.rpartition(":")
    return ClusterClient(ClusterSettings(alias, ((host, int(port)),), {}))


def flow_of(source: LocalCluster, target: LocalCluster, topics: str, more: str = "") -> FlowSettings:
    text = f"clusters = A, B\nA.bootstrap.servers = {source.bootstrap}\nB.bootstrap.servers = {target.bootstrap}\n"
    text += f"A->B.enabled = true\ntopics = {topics}\n{more}"
    return parse(text, "f", {}).flow(FlowName("A", "B"))


def grant(cluster: LocalCluster, *words: str) -> None:
    java_tool(ACL_COMMAND, ["--bootstrap-server", cluster.bootstrap, "--add", "--force", *words])


def await_rights_of(principal: str, client: ClusterClient) -> None:
    """Waits until the broker knows rights of a user; those that were set earlier it knows then, too."""
    await_true(lambda: any(acl.principal == principal for acl in describe_topic_acls(client) or []), what=principal)


def revoke(cluster: LocalCluster, *words: str) -> None:
    java_tool(ACL_COMMAND, ["--bootstrap-server", cluster.bootstrap, "--remove", "--force", *words])


def list_acls(cluster: LocalCluster) -> str:
    return java_tool(ACL_COMMAND, ["--bootstrap-server", cluster.bootstrap, "--list"]).decode()


def listed(cluster: LocalCluster) -> set[Acl]:
    """Every right on topics, as kafka-acls prints them."""
    found, at = set(), None
    for line in list_acls(cluster).splitlines():
        if "resourceType=" in line:
            at = RESOURCE.search(line)
        elif at is not None and (entry := ENTRY.search(line)):
            principal, host, operation, permission = entry.groups()
            right = Acl(topic=at[1], pattern=at[2], principal=principal, host=host, operation=operation,
                        permission=permission)  # fmt: skip
            found.add(right)
    return found


def await_listed(cluster: LocalCluster, stem: str, wanted: set[Acl]) -> None:
    """Waits until the rights on topics whose names hold `stem` are these; the broker follows its controller."""
    await_true(lambda: {acl for acl in listed(cluster) if stem in acl.topic} == wanted, what=f"{wanted} on {cluster}")


def right(topic: str, operation: str, principal: str = "User:ann", **more: str) -> Acl:
    return Acl(topic=topic, operation=operation, principal=principal, **more)


def test_rights_that_java_sets_on_the_source_are_read_by_java_on_the_target(
    guarded: tuple[LocalCluster, LocalCluster], topic_name: Callable[..., str]
) -> None:
    """MirrorConnectorsWithCustomForwardingAdminIntegrationTest testSyncTopicACLs."""
    source, target = guarded
    stem = topic_name("acl")
    one, two, other = f"{stem}-1", f"{stem}-2", f"{stem}.replica"
    create_topics(source, {name: (1, {}) for name in (one, two, other)})
    grant(source, "--allow-principal", "User:ann", "--operation", "Describe", "--topic", one)
    grant(source, "--allow-principal", "User:ben", "--operation", "All", "--operation", "Write", "--topic", two)
    grant(source, "--deny-principal", "User:eve", "--operation", "All", "--deny-host", "10.0.0.7", "--topic", two)
    grant(source, "--allow-principal", "User:cat", "--operation", "Read", "--topic", stem,
          "--resource-pattern-type", "prefixed")  # fmt: skip
    grant(source, "--allow-principal", "User:dan", "--operation", "Read", "--topic", f"{stem}-later", "--group", stem)
    wanted = {
        right(f"A.{one}", "DESCRIBE"),
        right(f"A.{two}", "READ", "User:ben"),
        right(f"A.{two}", "ALL", "User:eve", host="10.0.0.7", permission="DENY"),
        right(f"A.{one}", "READ", "User:cat"),
        right(f"A.{two}", "READ", "User:cat"),
        right(f"A.{stem}-later", "READ", "User:dan"),
    }
    with clients(source, target) as (near, far):
        await_rights_of("User:dan", near)
        sync = AclSync(flow_of(source, target, f"{stem}.*"))
        assert sync.run(near, far) == []
        await_listed(target, stem, wanted)
        assert sync.run(near, far) == []
    assert "resourceType=GROUP" not in list_acls(target)
    assert {acl for acl in listed(target) if stem in acl.topic} == wanted


def test_a_right_on_every_topic_is_no_wildcard_on_the_target_even_if_names_stay_as_they_are(
    guarded: tuple[LocalCluster, LocalCluster], topic_name: Callable[..., str]
) -> None:
    source, target = guarded
    name, principal = topic_name("every"), f"User:{topic_name('zoe')}"
    create_topics(source, {name: (1, {})})
    everything = ("--allow-principal", principal, "--operation", "All", "--topic", "*")
    grant(source, *everything)
    with clients(source, target) as (near, far):
        await_rights_of(principal, near)
        assert AclSync(flow_of(source, target, name, IDENTITY)).run(near, far) == []
    revoke(source, *everything)  # other tests' topics are not its business
    await_true(lambda: {acl for acl in listed(target) if acl.principal == principal} == {right(name, "READ", principal)})


def test_java_and_we_read_the_same_rights(
    guarded: tuple[LocalCluster, LocalCluster], topic_name: Callable[..., str]
) -> None:
    source, target = guarded
    stem = topic_name("odd")
    wanted = {
        right(stem, "ALTER_CONFIGS", "User:CN=ann,OU=ü", host="10.0.0.1"),
        right(stem, "DELETE", "User:*", pattern="PREFIXED", permission="DENY"),
        right(f"{stem}-x", "DESCRIBE_CONFIGS"),
    }
    with clients(source, target) as (near, _):
        assert create_topic_acls(near, sorted(wanted)) == dict.fromkeys(wanted)
        await_listed(source, stem, wanted)
        found = describe_topic_acls(near)
        assert {acl for acl in found or [] if stem in acl.topic} == wanted
        bad = right(f"{stem}-y", "READ", "no colon")
        verdicts = create_topic_acls(near, [right(f"{stem}-w", "READ"), bad, right(f"{stem}-z", "READ")])
        assert [verdict is None for verdict in verdicts.values()] == [True, False, True], verdicts


def test_a_source_without_authorizer_has_nothing_to_copy_and_the_target_is_never_asked(source_cluster: LocalCluster) -> None:
    """MirrorSourceConnectorTest testNoBrokerAclAuthorizer; here any question to the target would fail."""
    nowhere = ClusterClient(ClusterSettings("B", (("127.0.0.1", 1),), {}))
    with contextlib.closing(client_of("A", source_cluster)) as source:
        sync = AclSync(flow_of(source_cluster, source_cluster, ".*"))
        assert [sync.run(source, nowhere) for _ in range(3)] == [[], [], []]


def test_a_target_without_authorizer_is_told(
    guarded: tuple[LocalCluster, LocalCluster], target_cluster: LocalCluster, topic_name: Callable[..., str]
) -> None:
    name = topic_name("open")
    with clients(guarded[0], target_cluster) as (source, target):
        create_topic_acls(source, [right(name, "READ")])
        await_true(lambda: right(name, "READ") in (describe_topic_acls(source) or []))
        [note] = AclSync(flow_of(guarded[0], target_cluster, name)).run(source, target)
    assert note.startswith("cluster B has no authorizer, so 1 right of the source cannot be copied")


def test_a_target_that_lets_nobody_change_rights_is_told_with_what_to_grant(
    guarded: tuple[LocalCluster, LocalCluster],
    own_cluster: Callable[..., LocalCluster],
    topic_name: Callable[..., str],
) -> None:
    strict, name = own_cluster("strict", overrides=AUTHORIZER), topic_name("strict")
    # Without the first right the broker itself could not talk to its controller any more: now there is a right at all.
    grant(strict, "--allow-principal", "User:ANONYMOUS", "--operation", "All", "--cluster")
    grant(strict, "--deny-principal", "User:ANONYMOUS", "--operation", "Alter", "--cluster")
    await_true(lambda: "operation=ALTER, permissionType=DENY" in list_acls(strict), what="nobody may change rights")
    with clients(guarded[0], strict) as (source, target):
        create_topic_acls(source, [right(name, "READ")])
        await_true(lambda: right(name, "READ") in (describe_topic_acls(source) or []))
        sync = AclSync(flow_of(guarded[0], strict, name))
        [note] = sync.run(source, target)
    assert note == (
        f"cluster B refuses 1 right, first {right(f'A.{name}', 'READ')}: CLUSTER_AUTHORIZATION_FAILED (31); "
        "on B, grant ALTER on the cluster to User:ANONYMOUS (there is no login)"
    )
