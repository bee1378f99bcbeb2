"""Records as Java's own consumer reads them, by one JVM that stays: starting one for each reading cost 2 s of CPU.

The few lines of Java below only move what KafkaConsumer returns into a file, record by record and byte by byte. They are
compiled by Janino, which lies among Spark's jars: a Java without a compiler is enough.
"""

from __future__ import annotations

import atexit
import contextlib
import struct
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judge.java_gateway import java_gateway, java_map
from sparkmirror.local.reading import Headers, JavaRecord

__all__ = ["close_resident", "java_records", "java_stream"]

SILENCE_S = 120
TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}

_READER = """
import java.io.*;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

public class Reader implements java.util.function.Function {
    public Object apply(Object wanted) {
        try {
            return Long.valueOf(read((Map) wanted));
        } catch (IOException e) {
            throw new RuntimeException(e);
        }
    }

    private long read(Map wanted) throws IOException {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", wanted.get("bootstrap"));
        properties.put("isolation.level", wanted.get("isolation"));
        properties.put("enable.auto.commit", "false");
        properties.put("allow.auto.create.topics", "false");
        properties.put("auto.offset.reset", "earliest");
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        properties.put("key.deserializer", bytes);
        properties.put("value.deserializer", bytes);
        KafkaConsumer consumer = new KafkaConsumer(properties);
        DataOutputStream out = new DataOutputStream(
            new BufferedOutputStream(new FileOutputStream((String) wanted.get("file")), 1 << 20));
        try {
            return copy(consumer, out, (String) wanted.get("topic"), Long.parseLong((String) wanted.get("silence")));
        } finally {
            out.close();
            consumer.close(Duration.ZERO);
        }
    }

    private long copy(KafkaConsumer consumer, DataOutputStream out, String topic, long silence) throws IOException {
        List places = new ArrayList();
        List known = consumer.partitionsFor(topic);
        if (known == null || known.isEmpty()) {
            throw new IOException(topic + ": there is no such topic");
        }
        Iterator infos = known.iterator();
        while (infos.hasNext()) {
            places.add(new TopicPartition(topic, ((org.apache.kafka.common.PartitionInfo) infos.next()).partition()));
        }
        consumer.assign(places);
        Map ends = consumer.endOffsets(places);
        consumer.seekToBeginning(places);
        for (int i = 0; i < places.size(); i++) {
            out.writeInt(((TopicPartition) places.get(i)).partition());
        }
        out.writeInt(-1);
        long found = 0;
        long deadline = System.currentTimeMillis() + silence * 1000;
        while (!isDone(consumer, places, ends)) {
            ConsumerRecords records = consumer.poll(Duration.ofMillis(200));
            Iterator each = records.iterator();
            while (each.hasNext()) {
                ConsumerRecord record = (ConsumerRecord) each.next();
                Object end = ends.get(new TopicPartition(topic, record.partition()));
                if (record.offset() < ((Long) end).longValue()) {
                    write(out, record);
                    found++;
                }
            }
            if (records.count() > 0) {
                deadline = System.currentTimeMillis() + silence * 1000;
            } else if (System.currentTimeMillis() > deadline) {
                throw new IOException(topic + ": nothing came for " + silence + " s, wanted " + ends);
            }
        }
        return found;
    }

    private boolean isDone(KafkaConsumer consumer, List places, Map ends) {
        for (int i = 0; i < places.size(); i++) {
            TopicPartition place = (TopicPartition) places.get(i);
            if (consumer.position(place) < ((Long) ends.get(place)).longValue()) {
                return false;
            }
        }
        return true;
    }

    private void write(DataOutputStream out, ConsumerRecord record) throws IOException {
        Header[] headers = record.headers().toArray();
        out.writeInt(record.partition());
        out.writeLong(record.offset());
        out.writeLong(record.timestamp());
        out.writeInt(record.timestampType().id);
        out.writeInt(headers.length);
        put(out, (byte[]) record.key());
        put(out, (byte[]) record.value());
        for (int i = 0; i < headers.length; i++) {
            put(out, headers[i].key().getBytes("UTF-8"));
            put(out, headers[i].value());
        }
    }

    private void put(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) {
            out.write(bytes);
        }
    }
}
"""
_lock = threading.Lock()
_open = contextlib.ExitStack()
_reader: list[tuple[Any, Any]] = []


def java_records(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> dict[int, list[JavaRecord]]:
    """All records of each partition, in order, up to the end that the topic has at the time of the call."""
    found: dict[int, list[JavaRecord]] = {}
    for partition, record in java_stream(bootstrap, topic, isolation):
        records = found.setdefault(partition, [])
        if record is not None:
            records.append(record)
    return dict(sorted(found.items()))


def java_stream(
    bootstrap: str, topic: str, isolation: str = "read_uncommitted"
) -> Iterator[tuple[int, JavaRecord | None]]:
    """Each partition once with nothing, then its records, as they were read."""
    with tempfile.TemporaryDirectory(prefix="java-records-") as folder:
        file = Path(folder) / "records"
        jvm, reader = _resident()
        wanted = {"bootstrap": bootstrap, "topic": topic, "isolation": isolation, "silence": str(SILENCE_S)}
        reader.apply(java_map(jvm, wanted | {"file": str(file)}))
        yield from _parse(memoryview(file.read_bytes()))


def close_resident() -> None:
    """Ends the JVM; the next reading starts another one."""
    with _lock:
        _reader.clear()
        _open.close()


def _resident() -> tuple[Any, Any]:
    with _lock:
        if not _reader:
            jvm = _open.enter_context(java_gateway())
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.cook(_READER)
            _reader.append((jvm, compiler.getClassLoader().loadClass("Reader").newInstance()))
            atexit.register(close_resident)
        return _reader[0]


def _parse(data: memoryview) -> Iterator[tuple[int, JavaRecord | None]]:
    at = 0
    while (partition := struct.unpack_from(">i", data, at)[0]) >= 0:
        at += 4
        yield partition, None
    at += 4
    while at < len(data):
        partition, offset, timestamp, kind, headers = struct.unpack_from(">iqqii", data, at)
        at += 28
        parts: list[bytes | None] = []
        for _ in range(2 + 2 * headers):
            (size,) = struct.unpack_from(">i", data, at)
            at += 4
            parts.append(None if size < 0 else bytes(data[at : at + size]))
            at += max(size, 0)
        found = _headers(parts[2:])
        yield partition, JavaRecord(offset, timestamp, TIMESTAMP_TYPES[kind], parts[0], parts[1], found)


def _headers(parts: list[bytes | None]) -> Headers:
    return tuple(((key or b"").decode(), value) for key, value in zip(parts[::2], parts[1::2], strict=True))
