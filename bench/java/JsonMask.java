package bench;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.transforms.MaskField;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Kafka's MaskField for the values of MirrorMaker 2: those are bytes, which MaskField does not take, so that Kafka's
 * JsonConverter opens them before it and writes them after it.
 */
public final class JsonMask<R extends ConnectRecord<R>> implements Transformation<R> {
    private final JsonConverter converter = new JsonConverter();
    private final MaskField.Value<R> mask = new MaskField.Value<>();

    @Override
    public void configure(Map<String, ?> settings) {
        converter.configure(Map.of("schemas.enable", "false"), false);
        mask.configure(settings);
    }

    @Override
    public ConfigDef config() {
        return MaskField.CONFIG_DEF;
    }

    @Override
    public R apply(R record) {
        Object opened = converter.toConnectData(record.topic(), (byte[]) record.value()).value();
        R masked = mask.apply(with(record, null, opened));
        byte[] written = converter.fromConnectData(record.topic(), null, masked.value());
        return with(record, Schema.OPTIONAL_BYTES_SCHEMA, written);
    }

    private R with(R record, Schema schema, Object value) {
        return record.newRecord(
            record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), schema, value, record.timestamp());
    }

    @Override
    public void close() {
        mask.close();
    }
}
