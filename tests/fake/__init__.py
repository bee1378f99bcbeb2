"""A Kafka cluster of one broker in this process: Kafka's own protocol over a loopback socket, everything in memory.

It opens in a millisecond, so code behind the door to Kafka (`sparkmirror/clusters/`) is tested with it in milliseconds.
`tests/contract/` asks it and a real broker the same questions. One file for each request is in `apis/`.

What it does not do: several brokers and elections, leader epochs other than 0, TLS, SASL but PLAIN, rights, quotas,
members that join groups, segments, compaction and retention, LogAppendTime, expiry of producers and transactions,
fetch sessions.
Not compared with a real broker: rights that an authorizer keeps, and groups with members (a test gives them some).
"""

from fake.cluster import FakeCluster
from fake.log import FakeLog

__all__ = ["FakeCluster", "FakeLog"]
