"""One file for each request, named by its API key: REQUEST, RESPONSE, VERSIONS, and `answer`, which returns plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fake.apis import (
    a00_produce,
    a01_fetch,
    a02_list_offsets,
    a03_metadata,
    a08_offset_commit,
    a09_offset_fetch,
    a10_find_coordinator,
    a15_describe_groups,
    a16_list_groups,
    a17_sasl_handshake,
    a18_api_versions,
    a19_create_topics,
    a20_delete_topics,
    a21_delete_records,
    a22_init_producer_id,
    a23_offset_for_leader_epoch,
    a24_add_partitions_to_txn,
    a26_end_txn,
    a29_describe_acls,
    a30_create_acls,
    a32_describe_configs,
    a36_sasl_authenticate,
    a37_create_partitions,
    a44_incremental_alter_configs,
    a47_offset_delete,
    a60_describe_cluster,
    a61_describe_producers,
    a65_describe_transactions,
)

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

__all__ = ["HANDLERS", "Handler"]


class Handler(Protocol):
    """A file of this folder."""

    REQUEST: Any
    RESPONSE: Any
    VERSIONS: tuple[int, int]

    def answer(self, cluster: FakeCluster, request: Any) -> dict[str, Any]:
        """The broker's answer."""


_FILES: tuple[Any, ...] = (
    a00_produce,
    a01_fetch,
    a02_list_offsets,
    a03_metadata,
    a08_offset_commit,
    a09_offset_fetch,
    a10_find_coordinator,
    a15_describe_groups,
    a16_list_groups,
    a17_sasl_handshake,
    a18_api_versions,
    a19_create_topics,
    a20_delete_topics,
    a21_delete_records,
    a22_init_producer_id,
    a23_offset_for_leader_epoch,
    a24_add_partitions_to_txn,
    a26_end_txn,
    a29_describe_acls,
    a30_create_acls,
    a32_describe_configs,
    a36_sasl_authenticate,
    a37_create_partitions,
    a44_incremental_alter_configs,
    a47_offset_delete,
    a60_describe_cluster,
    a61_describe_producers,
    a65_describe_transactions,
)
HANDLERS: dict[int, Handler] = {file.REQUEST.API_KEY: file for file in _FILES}
