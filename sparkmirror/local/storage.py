"""A formatted data folder, as `kafka-storage format` leaves it, without a JVM for each.

The folder's ids are written here. Which feature levels a new cluster has, Kafka's own tool says, once per version: that
file is the same for every cluster, and kept.
"""

from __future__ import annotations

import base64
import os
import shutil
import uuid
from pathlib import Path

from sparkmirror.caches import cache_root

LEVELS = "bootstrap.checkpoint"


def new_id() -> str:
    """A random id as Kafka writes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def feature_levels(jars: Path) -> Path:
    """Where the file that Kafka's tool made is kept."""
    return cache_root() / f"{jars.name}.{LEVELS}"


def keep_feature_levels(jars: Path, data: Path) -> None:
    """Keeps the file of a folder that Kafka's tool has formatted; it appears at once and whole."""
    kept = feature_levels(jars)
    part = kept.with_name(f"{kept.name}.part-{os.getpid()}-{new_id()}")
    shutil.copyfile(data / LEVELS, part)
    part.replace(kept)


def write_storage(jars: Path, data: Path, *, cluster_id: str, broker: int) -> None:
    """Makes the data folder of one broker that is controller too."""
    data.mkdir()
    shutil.copyfile(feature_levels(jars), data / LEVELS)
    ids = {"version": "1", "cluster.id": cluster_id, "node.id": str(broker), "directory.id": new_id()}
    (data / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in ids.items()), encoding="utf-8")
