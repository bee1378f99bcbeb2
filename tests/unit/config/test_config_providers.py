"""Config providers: what is replaced, what is left, what is never read."""

import os

import pytest

from sparkmirror.config import parse
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import FlowName

PACKAGE = "org.apache.kafka.common.config.provider."
HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
CANARY = "canary-77aa"


def declared(name, kind, *params):
    lines = [f"config.providers = {name}", f"config.providers.{name}.class = {PACKAGE}{kind}ConfigProvider"]
    lines += [f"config.providers.{name}.param.{param}" for param in params]
    return HEAD + "\n".join(lines) + "\n"


def flow_of(text, variables=None):
    return parse(text, "f", variables or {}).flow(FlowName("A", "B"))


def test_environment_values_are_put_in_place():
    text = declared("env", "EnvVar") + "A.sasl.jaas.config = user ${env:USER} ${env:PASS};\n"
    flow = flow_of(text, {"USER": "u", "PASS": CANARY})
    assert flow.consumer["sasl.jaas.config"].reveal() == f"user u {CANARY};"
    assert CANARY not in repr(flow)


def test_environment_variables_outside_the_allow_list_are_left():
    text = declared("env", "EnvVar", "allowlist.pattern = MM_.*")
    text += "A->B.topics = ${env:MM_T}\nA->B.groups = ${env:HOME}\n"
    with pytest.raises(ConfigInvalid, match=r"\{env:HOME\}"):
        flow_of(text, {"MM_T": "t", "HOME": "h"})


def test_file_values_are_read_as_utf_8(tmp_path):
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("pass = é\nother: 1\n", encoding="utf-8")
    flow = flow_of(declared("file", "File") + f"A.ssl.key.password = ${{file:{secrets}:pass}}\n")
    assert flow.source.security["ssl.key.password"].reveal() == "é"


def test_directory_values_are_whole_files(tmp_path):
    (tmp_path / "user").write_text("me\n")
    flow = flow_of(declared("d", "Directory") + f"A.sasl.jaas.config = ${{d:{tmp_path}:user}}\n")
    assert flow.source.security["sasl.jaas.config"].reveal() == "me"


@pytest.mark.parametrize("key", ["../secret", "missing", "..", "link"])
def test_directory_never_leaves_the_allowed_paths(tmp_path, key):
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "secret").write_text(CANARY)
    os.symlink(tmp_path / "secret", inside / "link")
    text = declared("d", "Directory", f"allowed.paths = {inside}") + f"A.client.note = ${{d:{inside}:{key}}}\n"
    settings = parse(text, "f", {})
    assert any("provider `d` has no value for it" in warning for warning in settings.warnings)
    assert CANARY not in repr(settings)


def test_file_outside_the_allowed_paths_is_left(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out.properties").write_text(f"k = {CANARY}\n")
    text = declared("file", "File", f"allowed.paths = {tmp_path}/in")
    settings = parse(text + f"A.ssl.key.password = ${{file:{tmp_path}/in/../out.properties:k}}\n", "f", {})
    assert any("is left as it is" in warning for warning in settings.warnings)
    assert CANARY not in repr(settings)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("${file:/nonexistent/x:k}", "cannot be read"),
        ("${file:/dev/zero:k}", "is not a regular file"),
        ("${file:/:k}", "is not a regular file"),
    ],
)
def test_unreadable_file_is_a_problem_with_its_line(reference, told):
    with pytest.raises(ConfigInvalid) as invalid:
        flow_of(declared("file", "File") + f"A.ssl.key.password = {reference}\n")
    assert invalid.value.problems[0].startswith("line 7: A.ssl.key.password: ")
    assert told in invalid.value.problems[0]


def test_large_file_is_refused(tmp_path):
    (tmp_path / "big").write_bytes(b"a" * (1 << 20) + b"b")
    with pytest.raises(ConfigInvalid, match="at most 1048576"):
        flow_of(declared("file", "File") + f"A.ssl.key.password = ${{file:{tmp_path}/big:k}}\n")


def test_path_for_the_environment_is_a_problem():
    with pytest.raises(ConfigInvalid, match="has no path"):
        flow_of(declared("env", "EnvVar") + "A.ssl.key.password = ${env:some:PASS}\n", {"PASS": CANARY})


def test_returned_references_are_not_followed():
    flow = flow_of(declared("env", "EnvVar") + "A.ssl.key.password = ${env:A}\n", {"A": "${env:B}", "B": "${env:A}"})
    assert flow.source.security["ssl.key.password"].reveal() == "${env:B}"


def test_wrong_value_from_a_provider_is_shown_as_its_reference():
    with pytest.raises(ConfigInvalid) as invalid:
        flow_of(declared("env", "EnvVar") + "tasks.max = ${env:N}\n", {"N": CANARY})
    assert "found `${env:N}`" in str(invalid.value)
    assert CANARY not in str(invalid.value)


def test_wrong_regex_from_a_provider_does_not_show_it():
    with pytest.raises(ConfigInvalid) as invalid:
        flow_of(declared("env", "EnvVar") + "topics = ${env:N}\n", {"N": CANARY + "("})
    assert CANARY not in str(invalid.value)
