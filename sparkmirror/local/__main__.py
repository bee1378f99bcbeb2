"""`python -m sparkmirror.local`: fetches Kafka's jars if need be and prints their folder."""

from __future__ import annotations

import sys

from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.local.jars import kafka_jars

__all__: list[str] = []

if __name__ == "__main__":
    try:
        print(kafka_jars())
    except EnvironmentUnfit as error:
        sys.exit(f"sparkmirror: {error}")
