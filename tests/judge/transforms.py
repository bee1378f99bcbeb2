"""What Kafka's own transforms do to a record, between ByteArrayConverters as in MirrorMaker 2, or between JsonConverters.

The few lines of Java below only call the classes of Kafka one after the other. Records are those of a sink: a transform may
ask those for their offset too, and does the same to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judge.java_gateway import java_list, java_map
from sparkmirror.config import ConnectTransform

__all__ = ["JavaChain", "Plain"]

PACKAGE = "org.apache.kafka.connect.transforms."

_CHAIN = """
import java.util.*;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.converters.ByteArrayConverter;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

public class Chain implements java.util.function.Function {
    public Object apply(Object wanted) {
        Map given = (Map) wanted;
        String topic = (String) given.get("topic");
        Converter keys = converter("true".equals(given.get("json")), true);
        Converter values = converter("true".equals(given.get("json")), false);
        ConnectHeaders headers = new ConnectHeaders();
        List names = (List) given.get("names");
        List contents = (List) given.get("contents");
        for (int i = 0; i < names.size(); i++) {
            headers.addBytes((String) names.get(i), (byte[]) contents.get(i));
        }
        SchemaAndValue key = keys.toConnectData(topic, (byte[]) given.get("key"));
        SchemaAndValue value = values.toConnectData(topic, (byte[]) given.get("value"));
        ConnectRecord record = new SinkRecord(
            topic, Integer.parseInt((String) given.get("partition")), key.schema(), key.value(), value.schema(),
            value.value(), Long.parseLong((String) given.get("offset")),
            Long.valueOf(Long.parseLong((String) given.get("timestamp"))), TimestampType.CREATE_TIME, headers);
        List steps = (List) given.get("steps");
        for (int i = 0; i < steps.size() && record != null; i++) {
            record = step((Map) steps.get(i), record);
        }
        return record == null ? null : out(record, keys, values);
    }

    private Converter converter(boolean json, boolean isKey) {
        Converter made = json ? (Converter) new JsonConverter() : (Converter) new ByteArrayConverter();
        Map settings = new HashMap();
        settings.put("schemas.enable", "false");
        made.configure(settings, isKey);
        return made;
    }

    private ConnectRecord step(Map step, ConnectRecord record) {
        try {
            if (step.get("predicate") != null) {
                Predicate predicate = (Predicate) Class.forName((String) step.get("predicate")).newInstance();
                predicate.configure((Map) step.get("predicate.options"));
                if (predicate.test(record) == "true".equals(step.get("negate"))) {
                    return record;
                }
            }
            Transformation transform = (Transformation) Class.forName((String) step.get("type")).newInstance();
            transform.configure((Map) step.get("options"));
            return (ConnectRecord) transform.apply(record);
        } catch (ReflectiveOperationException e) {
            throw new RuntimeException(e);
        }
    }

    private List out(ConnectRecord record, Converter keys, Converter values) {
        List names = new ArrayList();
        List contents = new ArrayList();
        Iterator each = record.headers().iterator();
        while (each.hasNext()) {
            Header header = (Header) each.next();
            boolean plain = header.value() == null || header.schema().type() == Schema.Type.BYTES;
            names.add(header.key());
            contents.add(plain ? header.value() : new SimpleHeaderConverter().fromConnectHeader(
                record.topic(), header.key(), header.schema(), header.value()));
        }
        List found = new ArrayList();
        found.add(record.topic());
        found.add(record.kafkaPartition());
        found.add(keys.fromConnectData(record.topic(), record.keySchema(), record.key()));
        found.add(values.fromConnectData(record.topic(), record.valueSchema(), record.value()));
        found.add(names);
        found.add(contents);
        return found;
    }
}
"""


@dataclass(frozen=True)
class Plain:
    """A record as both sides show it."""

    offset: int
    topic: str = "orders"
    partition: int = 0
    timestamp: int = 1_700_000_000_000
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class JavaChain:
    """A chain of Kafka's own transforms in a JVM."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(_CHAIN)
        self._chain = compiler.getClassLoader().loadClass("Chain").newInstance()

    def apply(self, transforms: Sequence[ConnectTransform], record: Plain, *, json: bool) -> Plain | None:
        """What becomes of a record; None if it is left out. What Java raises is a Py4JJavaError."""
        given = java_map(self._jvm, {"topic": record.topic, "partition": str(record.partition), "json": str(json).lower()})
        given.put("offset", str(record.offset))
        given.put("timestamp", str(record.timestamp))
        given.put("key", record.key)
        given.put("value", record.value)
        given.put("names", java_list(self._jvm, [name for name, _ in record.headers]))
        given.put("contents", java_list(self._jvm, [content for _, content in record.headers]))
        given.put("steps", java_list(self._jvm, [self._step(transform) for transform in transforms]))
        found = self._chain.apply(given)
        if found is None:
            return None
        topic, partition, key, value, names, contents = _items(found)
        headers = tuple((name, _bytes(content)) for name, content in zip(_items(names), _items(contents), strict=True))
        return Plain(record.offset, topic, partition, record.timestamp, _bytes(key), _bytes(value), headers)

    def options(self, kind: str) -> dict[str, bool]:
        """The options of a transform or predicate, such as `predicates.HasHeaderKey`, and whether each is required."""
        keys = self._jvm.java.lang.Class.forName(PACKAGE + kind).newInstance().config().configKeys()
        return {name: not keys.get(name).hasDefault() for name in keys}

    def _step(self, transform: ConnectTransform) -> Any:
        step = java_map(self._jvm, {"type": PACKAGE + transform.type, "negate": str(transform.negate).lower()})
        step.put("options", java_map(self._jvm, transform.options))
        if transform.predicate is not None:
            step.put("predicate", f"{PACKAGE}predicates.{transform.predicate.type}")
            step.put("predicate.options", java_map(self._jvm, transform.predicate.options))
        return step


def _items(found: Any) -> list[Any]:
    """By index: an iterator ends by an exception of Java's, and beside a Spark session it costs 20 ms to read that."""
    return [found.get(at) for at in range(found.size())]


def _bytes(found: Any) -> bytes | None:
    return None if found is None else bytes(found)
