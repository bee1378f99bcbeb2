"""deploy/: every command parses, every setting loads, and every metric that a rule or a panel names exists."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyspark
import pytest
import typer
import yaml

from sparkmirror.cli.app import app
from sparkmirror.config import parse
from sparkmirror.errors import ConfigInvalid
from sparkmirror.metrics.exposition import exposition
from sparkmirror.metrics.registry import MirrorMetrics
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.session.spark_settings import Need, settings_for
from sparkmirror.status import CertificateEnd, CheckpointKey, FlowStatus, PartitionStatus

DEPLOY = Path(__file__).parents[2] / "deploy"
METRIC = re.compile(r"\b(?:sparkmirror_|kafka_connect_)\w+")


def documents(path: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / path).read_text(encoding="utf-8")))


def known_metrics() -> set[str]:
    """What /metrics has for a flow with a partition and a group."""
    partition = TopicPartition("t", 0)
    partitions = {partition: PartitionStatus(partition)}
    flow = FlowStatus(FlowName("A", "B"), "running", partitions=partitions, remotes={"t": "A.t"})
    flow.checkpoints[CheckpointKey("g", "A.t", 0)] = (1, 1)
    flow.certificates = (CertificateEnd("A", "our own certificate", 1),)
    metrics = MirrorMetrics()
    metrics.take([flow], 0.0)
    lines = exposition(metrics.metrics(1.0)).splitlines()
    return {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each file's command line of sparkmirror."""
    compose = documents("docker/compose.yaml")[0]
    yield "compose", compose["services"]["mirror"]["command"]
    deployment = next(d for d in documents("kubernetes/sparkmirror.yaml") if d["kind"] == "Deployment")
    yield "kubernetes", deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    yield "SparkApplication", documents("kubernetes/spark-application.yaml")[0]["spec"]["driverArgs"]
    unit = (DEPLOY / "systemd/sparkmirror.service").read_text(encoding="utf-8")
    yield "systemd", shlex.split(re.findall(r"^ExecStart=(.*)$", unit, re.M)[0])[1:]
    dockerfile = (DEPLOY / "docker/Dockerfile").read_text(encoding="utf-8")
    yield "Dockerfile", json.loads(re.findall(r"^CMD (.*)$", dockerfile, re.M)[0])


@pytest.mark.parametrize(("name", "words"), [pytest.param(*found, id=found[0]) for found in commands()])
def test_a_command_has_options_that_exist(name: str, words: list[str]) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group) or hasattr(group, "commands")
    command = group.commands[words[0]]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words[1:] if word.startswith("--")} <= known


def test_the_settings_load() -> None:
    config = next(d for d in documents("kubernetes/sparkmirror.yaml") if d["kind"] == "ConfigMap")
    for text in (config["data"]["mm2.properties"], (DEPLOY / "docker/mm2.properties").read_text(encoding="utf-8")):
        try:
            settings = parse(text, "mm2.properties")
        except ConfigInvalid as error:  # the files of secrets are where it is deployed
            assert all("/etc/sparkmirror/secrets" in problem for problem in error.problems), error.problems
        else:
            assert [str(flow.name) for flow in settings.enabled_flows(None)] == ["primary->dr"]


def test_a_secret_that_is_mounted_is_one_that_exists() -> None:
    found = documents("kubernetes/sparkmirror.yaml")
    secret = next(d for d in found if d["kind"] == "Secret")["stringData"]
    text = next(d for d in found if d["kind"] == "ConfigMap")["data"]["mm2.properties"]
    named = set(re.findall(r"\$\{dir:/etc/sparkmirror/secrets:([^}]+)\}", text)) | set(re.findall(r"secrets/(\S+)", text))
    assert named == set(secret)


def test_labels_and_ports_fit_together() -> None:
    found = {document["kind"]: document for document in documents("kubernetes/sparkmirror.yaml")}
    template = found["Deployment"]["spec"]["template"]
    labels, container = template["metadata"]["labels"], template["spec"]["containers"][0]
    for selector in (
        found["Deployment"]["spec"]["selector"]["matchLabels"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    ports = {port["name"] for port in container["ports"]}
    assert {container[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} <= ports
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in template["spec"]["volumes"]}


def test_the_spark_application_starts_our_program_with_what_the_other_manifest_defines() -> None:
    [application] = documents("kubernetes/spark-application.yaml")
    spec = application["spec"]
    assert (application["apiVersion"], application["kind"]) == ("spark.apache.org/v1", "SparkApplication")
    known = {(d["kind"], d["metadata"]["name"]) for d in documents("kubernetes/sparkmirror.yaml")}
    conf = spec["sparkConf"]
    assert all(isinstance(value, str) for value in conf.values())
    for role in ("driver", "executor"):
        template = spec[f"{role}Spec"]["podTemplateSpec"]["spec"]
        [volume], [container] = template["volumes"], template["containers"]
        assert ("ConfigMap", volume["configMap"]["name"]) in known
        assert conf[f"spark.kubernetes.{role}.podTemplateContainerName"] == container["name"]
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == [spec["driverArgs"][1]]
        name = f"spark.kubernetes.{role}.secrets."
        [secret] = [key.removeprefix(name) for key in conf if key.startswith(name)]
        assert ("Secret", secret) in known
    cores = int(conf["spark.executor.cores"])
    computed = settings_for("k8s://", Need(100), {"spark.executor.cores": str(cores)}, "")["spark.executor.memoryOverhead"]
    assert conf["spark.executor.memoryOverhead"] == computed
    assert spec["runtimeVersions"]["sparkVersion"] == pyspark.__version__


def test_every_alert_names_a_metric_that_exists() -> None:
    [rules] = documents("prometheus/alerts.yaml")
    known = known_metrics()
    for rule in rules["groups"][0]["rules"]:
        named = set(METRIC.findall(rule["expr"]))
        assert named and named <= known, (rule["alert"], named - known)
        assert {"summary", "action"} <= rule["annotations"].keys()
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_every_panel_names_a_metric_that_exists() -> None:
    board = json.loads((DEPLOY / "grafana/sparkmirror.json").read_text(encoding="utf-8"))
    known = known_metrics()
    for panel in board["panels"]:
        named = {name for target in panel["targets"] for name in METRIC.findall(target["expr"])}
        assert named and named <= known, (panel["title"], named - known)
    queries = [v["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    assert {name for query in queries for name in METRIC.findall(query)} <= known
