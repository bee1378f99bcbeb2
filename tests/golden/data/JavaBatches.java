// Writes java-batches.json: batches as kafka-clients 4.3.1 makes them. With a file of hex batches as argument, reads
// them back instead and prints every record, so that Java judges what this project writes.
//   java -cp 'kafka-clients-4.3.1.jar:lz4-java.jar:snappy-java.jar:zstd-jni.jar:slf4j-api.jar' JavaBatches.java [file]

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

public class JavaBatches {
    static byte[] b(String text) { return text == null ? null : text.getBytes(StandardCharsets.UTF_8); }

    static String hex(ByteBuffer buffer) {
        StringBuilder out = new StringBuilder();
        ByteBuffer copy = buffer.duplicate();
        while (copy.hasRemaining()) out.append(String.format("%02x", copy.get()));
        return out.toString();
    }

    static String hex(byte[] data) { return data == null ? null : hex(ByteBuffer.wrap(data)); }

    // A long value is written as its first byte and its length.
    static String brief(byte[] data) {
        return data == null || data.length < 100 ? hex(data) : String.format("%02x*%d", data[0], data.length);
    }

    static SimpleRecord[] records(boolean headers, int longest) {
        Header[] some = {new RecordHeader("h", b("1")), new RecordHeader("h", null), new RecordHeader("é", new byte[0])};
        Header[] none = {};
        return new SimpleRecord[] {
            new SimpleRecord(1700000000000L, b("key"), b("value"), headers ? some : none),
            new SimpleRecord(1700000000005L, null, b("no key"), none),
            new SimpleRecord(1699999999000L, b("tombstone"), null, none),
            new SimpleRecord(1700000400000L, b(""), b("x".repeat(longest)), none)};
    }

    static String quoted(String text) { return text == null ? "null" : "\"" + text + "\""; }

    static String line(String name, long base, MemoryRecords records) {
        List<String> rows = new ArrayList<>();
        for (RecordBatch batch : records.batches())
            for (org.apache.kafka.common.record.internal.Record r : batch) {
                byte[] key = r.hasKey() ? org.apache.kafka.common.utils.Utils.toArray(r.key()) : null;
                byte[] value = r.hasValue() ? org.apache.kafka.common.utils.Utils.toArray(r.value()) : null;
                List<String> headers = new ArrayList<>();
                for (Header h : r.headers()) headers.add("[" + quoted(hex(b(h.key()))) + ", " + quoted(hex(h.value())) + "]");
                rows.add("[" + r.offset() + ", " + r.timestamp() + ", " + quoted(hex(key)) + ", " + quoted(brief(value))
                    + ", [" + String.join(", ", headers) + "]]");
            }
        return " {\"name\": \"" + name + "\", \"batch\": \"" + hex(records.buffer()) + "\",\n  \"records\": [\n   "
            + String.join(",\n   ", rows) + "]}";
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            for (String text : Files.readAllLines(Path.of(arguments[0]))) {
                byte[] data = new byte[text.length() / 2];
                for (int i = 0; i < data.length; i++) data[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
                MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(data));
                for (MutableRecordBatch batch : records.batches()) batch.ensureValid();
                System.out.println(line("read", 0, records));
            }
            return;
        }
        List<String> lines = new ArrayList<>();
        Map<String, Compression> codecs = new LinkedHashMap<>();
        codecs.put("none", Compression.NONE);
        codecs.put("gzip", Compression.gzip().build());
        codecs.put("snappy", Compression.snappy().build());
        codecs.put("lz4", Compression.lz4().build());
        codecs.put("zstd", Compression.zstd().build());
        for (var codec : codecs.entrySet())
            for (byte magic = 0; magic <= 2; magic++) {
                if (magic < 2 && codec.getKey().equals("zstd")) continue;
                MemoryRecords made = MemoryRecords.withRecords(magic, 500L, codec.getValue(), TimestampType.CREATE_TIME, records(magic == 2, codec.getKey().equals("none") ? 300 : 70000));
                lines.add(line("v" + magic + "-" + codec.getKey(), 500, made));
            }
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT})
            lines.add(line("marker-" + type.name().toLowerCase(), 500, MemoryRecords.withEndTransactionMarker(
                500L, 1700000000000L, 3, 77L, (short) 4, new EndTransactionMarker(type, 9))));
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }
}
