"""`python -m sparkmirror.local`: fetches Kafka's jars and prepares their start if need be, and prints their folder."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.local.class_archive import class_archive, class_list_option, make_archive
from sparkmirror.local.cluster import LocalCluster
from sparkmirror.local.jars import kafka_jars
from sparkmirror.local.java import QUICK_START
from sparkmirror.local.tools import CONSUMER_GROUPS, java_tool


def main() -> None:
    """One broker and one tool, whose classes are written down and archived."""
    jars = kafka_jars()
    if not class_archive(jars).is_file():
        print("preparing the brokers' start (once)", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="sparkmirror-classes-") as folder:
            of_broker, of_tool = Path(folder) / "broker.lst", Path(folder) / "tool.lst"
            with LocalCluster("training", jvm_options=[class_list_option(of_broker)]) as cluster:
                arguments = ["--bootstrap-server", cluster.bootstrap, "--list"]
                java_tool(CONSUMER_GROUPS, arguments, options=[*QUICK_START, class_list_option(of_tool)])
                cluster.stop(1)
            make_archive(jars, [of_broker, of_tool])
    print(jars)


if __name__ == "__main__":
    try:
        main()
    except EnvironmentUnfit as error:
        sys.exit(f"sparkmirror: {error}")
