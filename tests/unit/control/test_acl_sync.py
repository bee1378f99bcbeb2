"""Rounds of copying rights against two fake clusters: what is asked, in which order, and what the user is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin.acl import ACLOperation, ACLPermissionType, ACLResourcePatternType

from sparkmirror.clusters import name_of
from sparkmirror.config import parse
from sparkmirror.control import AclSync, acls
from sparkmirror.errors import BrokerRefused
from sparkmirror.model import Acl, FlowName

HEAD = "clusters = A, C\nA.bootstrap.servers = a:1\nC.bootstrap.servers = c:1\nA->C.enabled = true\n"
FLOW = parse(HEAD, "f", {}).flow(FlowName("A", "C"))
CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED, INVALID_REQUEST = 31, 54, 42


def right(topic: str, **more: str) -> Acl:
    return replace(Acl(topic=topic, principal="User:ann", operation="READ"), **more)


@dataclass
class FakeCluster:
    """The door to a cluster that knows rights (None: no authorizer) and topics, and refuses some rights by a code."""

    alias: str
    acls: list[Acl] | None = field(default_factory=list)
    topics: Collection[str] = ()
    refuses: Mapping[Acl, int] = field(default_factory=dict)
    describe_error: int = 0
    created: list[list[Acl]] = field(default_factory=list)
    questions: int = 0
    who: str = "user mirror"

    def retry(self, action: Callable[[], Any]) -> Any:
        return action()

    def check(self, code: int, what: str) -> None:
        if code:
            raise BrokerRefused(f"{what}: {name_of(code)}", error_code=code)

    def view(self, topics: None) -> Any:
        return SimpleNamespace(topics={t: SimpleNamespace(name=t, is_internal=False, error=0) for t in self.topics})

    def ask_any(self, build: Callable[[Any], Any]) -> Any:
        self.questions += 1
        request = build(SimpleNamespace(version=lambda api, lowest, highest: highest))
        return self._create(request) if hasattr(request, "creations") else self._describe()

    def _describe(self) -> Any:
        code = SECURITY_DISABLED if self.acls is None else self.describe_error
        resources = [
            SimpleNamespace(
                resource_name=acl.topic,
                pattern_type=ACLResourcePatternType[acl.pattern],
                acls=[
                    SimpleNamespace(
                        principal=acl.principal,
                        host=acl.host,
                        operation=ACLOperation[acl.operation],
                        permission_type=ACLPermissionType[acl.permission],
                    )
                ],
            )
            for acl in self.acls or []
        ]
        return SimpleNamespace(error_code=code, resources=[] if code else resources)

    def _create(self, request: Any) -> Any:
        asked = [
            Acl(
                topic=one.resource_name,
                pattern=ACLResourcePatternType(one.resource_pattern_type).name,
                principal=one.principal,
                host=one.host,
                operation=ACLOperation(one.operation).name,
                permission=ACLPermissionType(one.permission_type).name,
            )
            for one in request.creations
        ]
        self.created.append(asked)
        assert self.acls is not None
        self.acls += [acl for acl in asked if acl not in self.refuses]
        codes = [self.refuses.get(acl, 0) for acl in asked]
        return SimpleNamespace(results=[SimpleNamespace(error_code=code, error_message="why") for code in codes])


def test_only_what_is_missing_is_created_and_nothing_in_the_next_round() -> None:
    source = FakeCluster("A", [right("t"), right("u"), right("v", pattern="PREFIXED")], ["v1", "v2"])
    target = FakeCluster("C", [right("A.t"), right("local")])
    sync = AclSync(FLOW)
    assert sync.run(source, target) == []
    assert target.created == [[right("A.u"), right("A.v1"), right("A.v2")]]
    assert sync.run(source, target) == []
    assert len(target.created) == 1


def test_a_source_without_authorizer_has_nothing_to_copy_and_the_target_is_never_asked() -> None:
    """MirrorSourceConnectorTest testNoBrokerAclAuthorizer; MM2 writes a line about it."""
    source, target, sync = FakeCluster("A", None), FakeCluster("C"), AclSync(FLOW)
    assert [sync.run(source, target) for _ in range(3)] == [[], [], []]
    assert (source.questions, target.questions) == (3, 0)


def test_a_target_without_authorizer_is_told_with_the_number_of_rights_that_stay_behind() -> None:
    [note] = AclSync(FLOW).run(FakeCluster("A", [right("t"), right("u")]), FakeCluster("C", None))
    assert "cluster C has no authorizer, so 2 rights of the source cannot be copied" in note


def test_a_refused_right_does_not_stop_the_others() -> None:
    bad = right("A.b")
    target = FakeCluster("C", refuses={bad: INVALID_REQUEST})
    notes = AclSync(FLOW).run(FakeCluster("A", [right("a"), right("b"), right("c")]), target)
    assert target.acls == [right("A.a"), right("A.c")]
    assert notes == [f"cluster C refuses 1 right, first {bad}: INVALID_REQUEST (42): why"]


def test_rights_refused_for_one_reason_are_one_note_that_says_what_to_grant() -> None:
    refuses = {right(f"A.{name}"): CLUSTER_AUTHORIZATION_FAILED for name in "abc"}
    notes = AclSync(FLOW).run(FakeCluster("A", [right(name) for name in "abc"]), FakeCluster("C", refuses=refuses))
    assert notes == [
        "cluster C refuses 3 rights, first ALLOW READ on topic A.a for User:ann from host *: "
        "CLUSTER_AUTHORIZATION_FAILED (31); on C, grant ALTER on the cluster to user mirror"
    ]


def test_rights_that_may_not_be_read_say_what_to_grant() -> None:
    with pytest.raises(BrokerRefused, match="on A, grant DESCRIBE on the cluster"):
        AclSync(FLOW).run(FakeCluster("A", describe_error=CLUSTER_AUTHORIZATION_FAILED), FakeCluster("C"))


def test_nothing_is_allowed_where_a_denial_was_refused() -> None:
    denied = right("A.t", permission="DENY", host="10.0.0.1")
    source = FakeCluster("A", [right("t"), right("t", permission="DENY", host="10.0.0.1"), right("u")])
    target = FakeCluster("C", refuses={denied: INVALID_REQUEST})
    sync = AclSync(FLOW)
    refused, held = sync.run(source, target)
    assert (target.created, target.acls) == ([[denied], [right("A.u")]], [right("A.u")])
    assert (str(denied) in refused, "1 right before the refused DENY" in held) == (True, True)
    target.refuses = {}
    assert sync.run(source, target) == []
    assert set(target.acls) == {denied, right("A.t"), right("A.u")}


def test_a_round_and_a_request_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "ACLS_PER_ROUND_MAX", 1200)
    source, target = FakeCluster("A", [right("*")], [f"t{at:04}" for at in range(1500)]), FakeCluster("C")
    sync = AclSync(FLOW)
    assert sync.run(source, target) == ["cluster C lacks more than 1200 rights; the next rounds add the rest"]
    assert [len(some) for some in target.created] == [500, 500, 200]
    assert sync.run(source, target) == []
    assert len(target.acls or []) == 1500
