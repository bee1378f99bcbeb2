"""Policies and filters that a user wrote: found, made, asked, and told of when they are wrong."""

import json
from pathlib import Path

import pytest

from sparkmirror.config import load, parse
from sparkmirror.control import Mirror, RunOptions
from sparkmirror.errors import ConfigInvalid, CustomClassFailed
from sparkmirror.examination import make_plan
from sparkmirror.model import ConfigEntry, FlowName
from sparkmirror.topology import (
    DefaultReplicationPolicy,
    config_property_filter,
    group_filter,
    is_cycle,
    policy_for,
    require_custom_classes,
    select_topics,
    topic_filter,
)
from sparkmirror.topology.configs import ConfigRules, creation_configs

GOLDEN = json.loads((Path(__file__).parent / "data" / "custom-policy-4.3.1.json").read_text())
DOCS = Path(__file__).parents[3] / "docs"
EXAMPLE = DOCS / "examples" / "custom.properties"
HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
QUIET = "emit.heartbeats.enabled = false\n"
AB = FlowName("A", "B")
POLICY = """
class Policy:
    def format_remote_topic(self, source_alias, topic): return topic
    def topic_source(self, topic): return None
    def upstream_topic(self, topic): return None
"""


@pytest.fixture
def written(tmp_path, request):
    """Writes a module under a name of its own and returns settings that name classes of it."""

    def write(code, lines, head=HEAD + QUIET):
        module = "made_" + "".join(c if c.isalnum() else "_" for c in request.node.name)[:60] + f"_{abs(hash(code))}"
        (tmp_path / f"{module}.py").write_text(code)
        path = tmp_path / "mm2.properties"
        path.write_text(head + lines.replace("MODULE", module))
        return load(str(path))

    return write


def policy_of(settings):
    return policy_for(settings.flow(AB))


def problem_of(settings):
    with pytest.raises(ConfigInvalid) as invalid:
        require_custom_classes(settings, None)
    [problem] = invalid.value.problems
    assert invalid.value.exit_status == 2
    return problem


def test_example_policy_answers_as_the_java_class_it_follows():
    policy = policy_for(load(str(EXAMPLE)).flow(FlowName("primary", "dr")))
    for alias in ("source", "us-west"):
        assert policy.offset_syncs_topic(alias) == GOLDEN[f"offset_syncs {alias}"]
        assert policy.checkpoints_topic(alias) == GOLDEN[f"checkpoints {alias}"]
    assert policy.heartbeats_topic == GOLDEN["heartbeats"]
    for name, expected in GOLDEN["names"].items():
        assert [
            policy.format_remote_topic("source", name),
            policy.format_remote_topic("us-west", name),
            policy.topic_source(name),
            policy.upstream_topic(name),
            policy.original_topic(name),
            policy.is_heartbeats_topic(name),
            policy.is_checkpoints_topic(name),
            policy.is_mm2_internal_topic(name),
            policy.is_internal_topic(name),
        ] == expected, name


def test_example_of_the_documentation_is_the_file_beside_it():
    page = (DOCS / "policies.md").read_text()
    for name in ("replicated_policy.py", "tagged_filters.py"):
        code = (DOCS / "examples" / name).read_text()
        first = code.split("\n\n\n")[1].strip()
        assert f"```python\n{first}\n```" in page


def test_example_file_loads_without_a_warning_and_its_filters_choose():
    settings = load(str(EXAMPLE))
    flow = settings.flow(FlowName("primary", "dr"))
    require_custom_classes(settings, None)
    assert settings.warnings == ()
    assert [name for name in ("payments-a", "other-a") if topic_filter(flow).wants(name)] == ["payments-a"]
    assert [name for name in ("payments-g", "g") if group_filter(flow).wants(name)] == ["payments-g"]
    configs = config_property_filter(flow)
    assert [name for name in ("retention.ms", "cleanup.policy") if configs.wants(name)] == ["retention.ms"]
    assert not configs.wants_source_default("retention.ms")
    found = {d.topic: d for d in select_topics(flow, policy_for(flow), ["payments-a", "b", "heartbeats", "__x"])}
    assert found["payments-a"].remote == "replicated-primary-payments-a"
    assert found["payments-a"].reason == "wanted by tagged_filters:TeamTopics"
    assert found["b"].reason == "refused by tagged_filters:TeamTopics"
    assert found["heartbeats"].replicated
    assert found["__x"].reason == "internal topic"


def test_alias_with_a_dash_is_not_read_back_and_a_loop_over_it_is_refused(tmp_path):
    (tmp_path / "replicated_policy.py").write_text((DOCS / "examples" / "replicated_policy.py").read_text())
    head = "clusters = us-west, eu\nus-west.bootstrap.servers = a:1\neu.bootstrap.servers = b:1\n"
    both = "us-west->eu.enabled = true\neu->us-west.enabled = true\n"
    path = tmp_path / "mm2.properties"
    path.write_text(head + both + "replication.policy.class = replicated_policy:ReplicatedPolicy\n")
    problem = problem_of(load(str(path)))
    assert "eu->us-west would copy replicated-us-west-topic back as replicated-eu-replicated-us-west-topic" in problem
    assert "answers 'us', expected 'us-west'" in problem
    path.write_text(path.read_text() + "replication.loops.allowed = true\n")
    require_custom_classes(load(str(path)), None)
    path.write_text(path.read_text().replace("us-west", "us").replace("allowed = true", "allowed = false"))
    require_custom_classes(load(str(path)), None)


def test_no_loop_is_seen_where_the_way_back_does_not_copy_the_names(written):
    both = "B->A.enabled = true\nreplication.policy.class = MODULE:Policy\nA->B.topics = a\nB->A.topics = b\n"
    require_custom_classes(written(POLICY, both), None)
    assert "would copy topic back" in written_problem(written, both.replace("topics = a", "x = a").replace("= b", "= .*"))


def written_problem(written, lines):
    with pytest.raises(ConfigInvalid) as invalid:
        require_custom_classes(written(POLICY, lines), None)
    return invalid.value.problems[0]


def test_what_a_policy_does_not_define_follows_the_default_rule(written):
    code = """
class Policy:
    def format_remote_topic(self, source_alias, topic): return f"{topic}_from_{source_alias}"
    def topic_source(self, topic): return topic.rpartition("_from_")[2] if "_from_" in topic else None
    def upstream_topic(self, topic): return topic.rpartition("_from_")[0] or None
"""
    policy = policy_of(written(code, "replication.policy.class = MODULE:Policy\nreplication.policy.separator = _\n"))
    assert policy.original_topic("t_from_A_from_B") == "t"
    assert policy.is_heartbeats_topic("heartbeats_from_A")
    assert not policy.is_heartbeats_topic("A_heartbeats")
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs_B_internal"
    assert policy.checkpoints_topic("A") == "A_checkpoints_internal"
    assert is_cycle(policy, "t_from_B_from_A", "B")
    assert not is_cycle(policy, "t_from_A", "B")
    internal = ("mm2-ledger.A.internal", "mm2-offsets.A.internal", "mm2-x_internal", "A_checkpoints_internal", "__t")
    assert [name for name in (*internal, "t") if policy.is_internal_topic(name)] == list(internal)


def test_own_topics_stay_internal_whatever_a_policy_says(written):
    never = (
        "    def is_internal_topic(self, topic): return False\n    def is_mm2_internal_topic(self, topic): return False\n"
    )
    policy = policy_of(written(POLICY + never, "replication.policy.class = MODULE:Policy\n"))
    for name in ("mm2-ledger.A.internal", "mm2-offset-syncs.B.internal", "mm2-configs.A.internal", "A.checkpoints.internal"):
        assert policy.is_internal_topic(name)
    assert not policy.is_internal_topic("__mine")


def test_every_method_of_a_policy_may_be_the_users(written):
    code = (
        POLICY
        + """
    heartbeats_topic = "beats"
    def original_topic(self, topic): return "beats" if topic == "x" else topic
    def offset_syncs_topic(self, alias): return f"syncs-{alias}"
    def checkpoints_topic(self, source_alias): return f"checks-{source_alias}"
    def is_checkpoints_topic(self, topic): return topic.startswith("checks-")
"""
    )
    policy = policy_of(written(code, "replication.policy.class = MODULE:Policy\n"))
    assert policy.heartbeats_topic == "beats"
    assert policy.is_heartbeats_topic("x")
    assert (policy.offset_syncs_topic("B"), policy.checkpoints_topic("A")) == ("syncs-B", "checks-A")
    assert policy.is_internal_topic("checks-A")


def test_class_gets_the_keys_of_the_flow_without_secrets_and_is_made_once(written):
    code = """
class Topics:
    made = []
    def __init__(self, config):
        self.config = config
        self.made.append(config)
    def should_replicate_topic(self, topic): return self.config.get(topic) is not None
"""
    lines = (
        "A->B.topic.filter.class = MODULE:Topics\nA->B.my.list = a\nA->B.my.password = p4ss\ntopics = x\n"
        'A.sasl.jaas.config = x "p4ss";\nsasl.mechanism = PLAIN\nB.producer.ssl.key.password = p4ss\n'
    )
    settings = written(code, lines)
    topics = topic_filter(settings.flow(AB))
    assert topic_filter(settings.flow(AB)).own.instance is topics.own.instance
    [config] = topics.own.instance.made
    assert (config["my.list"], config["topics"], config["source.cluster.alias"]) == ("a", "x", "A")
    assert config["source.cluster.sasl.mechanism"] == "PLAIN"
    assert "p4ss" not in repr(dict(config))
    assert not [warning for warning in settings.warnings if "my.list" in warning]
    with pytest.raises(TypeError):
        config["x"] = "y"


def test_key_that_looks_like_one_of_ours_is_refused_beside_a_custom_class_too(written):
    code = "class Topics:\n    def should_replicate_topic(self, topic): return True\n"
    with pytest.raises(ConfigInvalid, match=r"A->B\.replication\.facto: unknown key, expected"):
        written(code, "A->B.topic.filter.class = MODULE:Topics\nA->B.replication.facto = 1\n")
    settings = written(code, "A->B.topic.filter.class = MODULE:Topics\nA->B.topics.tag = 1\nB->A.mine = 1\n")
    assert [warning for warning in settings.warnings if "unknown key" in warning] == [
        "line 8: B->A.mine: has no effect: unknown key"
    ]


def test_policy_may_inherit_from_one_of_ours(written):
    code = """
from sparkmirror.topology import DefaultReplicationPolicy
class Mine(DefaultReplicationPolicy):
    def is_internal_topic(self, topic): return topic == "secret"
"""
    policy = policy_of(written(code, "replication.policy.class = MODULE:Mine\n"))
    assert policy.format_remote_topic("A", "t") == "A.t"
    assert policy.is_internal_topic("secret")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("", "expected a class Policy in module made_"),
        ("Policy = 3", "which is no class but int"),
        ("class Policy: pass", "without format_remote_topic, topic_source, upstream_topic; define what is missing"),
        (POLICY.replace("def upstream_topic", "def upstream"), "without upstream_topic"),
        (
            POLICY.replace("(self, source_alias, topic)", "(self, topic)"),
            "expected format_remote_topic(source_alias, topic)",
        ),
        (POLICY + "    def __init__(self): raise OSError('no file')", "its constructor raised OSError: no file"),
        (POLICY + "    def __init__(self, config): config['nothing']", "its constructor raised KeyError: 'nothing'"),
        (POLICY + "    def __init__(self, config, more): pass", "its constructor raised TypeError"),
        ("import nothing_of_that_name", "imports `nothing_of_that_name`, which is not there; install it"),
        ("def broken(:", "raised SyntaxError"),
        ("1 / 0", "raised ZeroDivisionError: division by zero; mend the module"),
        ("import sys; sys.exit(3)", "raised SystemExit: 3"),
    ],
)
def test_class_that_cannot_be_used_is_a_mistake_in_the_file(written, code, told):
    problem = problem_of(written(code, "replication.policy.class = MODULE:Policy\n"))
    assert problem.startswith("A->B: replication.policy.class: expected ")
    assert told in problem


def test_missing_module_says_where_to_put_it(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(HEAD + "group.filter.class = no.such_module:Groups\n")
    problem = problem_of(load(str(path)))
    assert problem == (
        "A->B, B->A: group.filter.class: expected a module no.such_module, found none; put no/such_module.py into "
        f"{tmp_path} or into a folder of PYTHONPATH"
    )


def test_every_wrong_class_is_told_at_once():
    lines = "".join(f"{key}.class = gone_module:X\n" for key in ("topic.filter", "group.filter", "config.property.filter"))
    with pytest.raises(ConfigInvalid) as invalid:
        require_custom_classes(parse(HEAD + QUIET + lines, "f", {}), None)
    assert len(invalid.value.problems) == 3


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise KeyError(topic)", "should_replicate_topic('orders') raised KeyError: 'orders'"),
        ("return None", "should_replicate_topic('orders') returned NoneType `None`, expected True or False"),
        ("return 1", "should_replicate_topic('orders') returned int `1`, expected True or False"),
        ("return 'x' * 1000", "should_replicate_topic('orders') returned str `'xxx"),
    ],
)
def test_method_that_fails_is_one_error_with_class_method_and_argument(written, body, told):
    code = f"class Topics:\n    def should_replicate_topic(self, topic): {body}\n"
    flow = written(code, "topic.filter.class = MODULE:Topics\n").flow(AB)
    with pytest.raises(CustomClassFailed) as failed:
        select_topics(flow, policy_for(flow), ["orders"])
    assert told in failed.value.message
    assert ":Topics: " in failed.value.message
    assert len(failed.value.message) < 400


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("format_remote_topic", "None", "format_remote_topic('A', 't') returned NoneType `None`, expected text"),
        ("format_remote_topic", "b't'", "returned bytes"),
        ("format_remote_topic", "''", "returned str `''`, expected text"),
        ("topic_source", "3", "topic_source('t') returned int `3`, expected text or None"),
        ("upstream_topic", "topic + 'x'", "finds no end for topic t"),
    ],
)
def test_policy_that_answers_wrongly_is_one_error(written, method, answer, told):
    code = POLICY + "    def topic_source(self, topic): return 'Z'\n"
    arguments = "source_alias, topic" if method == "format_remote_topic" else "topic"
    code += f"    def {method}(self, {arguments}): return {answer}\n"
    flow = written(code, "replication.policy.class = MODULE:Policy\n").flow(AB)
    with pytest.raises(CustomClassFailed, match=r"docs/policies\.md") as failed:
        select_topics(flow, policy_for(flow), ["t"])
    assert told in failed.value.message


def test_remote_name_that_kafka_refuses_leaves_the_topic_out(written):
    code = POLICY + "    def format_remote_topic(self, source_alias, topic): return f'{source_alias}/{topic}'\n"
    flow = written(code, "replication.policy.class = MODULE:Policy\n").flow(AB)
    [found] = select_topics(flow, policy_for(flow), ["t"])
    assert (found.replicated, found.reason[:29]) == (False, "remote name 'A/t' is no name ")


def test_config_filter_without_a_word_on_defaults_follows_the_file(written):
    code = "class Configs:\n    def should_replicate_config_property(self, name): return name == 'a'\n"
    lines = "config.property.filter.class = MODULE:Configs\n"
    assert not config_property_filter(written(code, lines).flow(AB)).wants_source_default("a")
    from_source = written(code, lines + "A->B.use.defaults.from = source\n").flow(AB)
    assert config_property_filter(from_source).wants_source_default("a")
    assert config_property_filter(parse(HEAD, "f", {}).flow(AB)).wants_source_default("a") is False


def test_config_filter_decides_about_each_default_of_the_source(written):
    code = (
        "class Configs:\n"
        "    def should_replicate_config_property(self, name): return name != 'c'\n"
        "    def should_replicate_source_default(self, name): return name == 'a'\n"
    )
    flow = written(code, "config.property.filter.class = MODULE:Configs\n").flow(AB)
    entries = [ConfigEntry(name, "1", 5, is_read_only=False, is_sensitive=False) for name in "abc"]
    assert creation_configs(ConfigRules.of(flow), entries) == {"a": "1"}


@pytest.mark.parametrize("text", ["mine.py:Policy", "mine", "a:b:C", ":C", "a:", "com.example.Custom", "a b:C", "-a:C"])
def test_text_that_names_no_python_class_is_refused_with_what_to_write(text):
    with pytest.raises(ConfigInvalid) as invalid:
        parse(HEAD + f"replication.policy.class = {text}\n", "f", {})
    [problem] = invalid.value.problems
    for part in (
        "line 5: replication.policy.class: expected org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
        "a Python class written as module:Class with format_remote_topic(source_alias, topic), topic_source(topic), ",
        "(Java classes cannot be loaded; see docs/policies.md), found `",
    ):
        assert part in problem


def test_is_cycle_asks_no_further_where_a_policy_tells_no_upstream_topic():
    """testIsCycleWithNullUpstreamTopic"""

    class Nameless(DefaultReplicationPolicy):
        def upstream_topic(self, topic):
            return None

    assert not is_cycle(Nameless(), "B.t", "C")
    assert is_cycle(Nameless(), "C.t", "C")


@pytest.mark.parametrize("start", [make_plan, lambda settings: Mirror(settings, RunOptions())], ids=["plan", "run"])
def test_plan_and_run_refuse_a_wrong_class_before_they_ask_a_cluster(written, start):
    settings = written("class Policy: pass", "replication.policy.class = MODULE:Policy\n")
    with pytest.raises(ConfigInvalid, match="without format_remote_topic") as invalid:
        start(settings)
    assert invalid.value.exit_status == 2
