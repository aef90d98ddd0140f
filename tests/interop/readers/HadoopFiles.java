import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.ArrayPrimitiveWritable;
import org.apache.hadoop.io.BooleanWritable;
import org.apache.hadoop.io.ByteWritable;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.DoubleWritable;
import org.apache.hadoop.io.FloatWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.MapFile;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.ShortWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.VIntWritable;
import org.apache.hadoop.io.VLongWritable;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.io.WritableComparable;
import org.apache.hadoop.io.compress.BZip2Codec;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.DefaultCodec;
import org.apache.hadoop.io.compress.DeflateCodec;
import org.apache.hadoop.io.compress.SnappyCodec;
import org.apache.hadoop.util.ReflectionUtils;
import org.datavec.api.records.converter.RecordReaderConverter;
import org.datavec.api.records.reader.impl.csv.CSVRecordReader;
import org.datavec.api.split.FileSplit;
import org.datavec.hadoop.records.reader.mapfile.MapFileReader;
import org.datavec.hadoop.records.reader.mapfile.MapFileRecordReader;
import org.datavec.hadoop.records.reader.mapfile.MapFileSequenceRecordReader;
import org.datavec.hadoop.records.reader.mapfile.index.LongIndexToKey;
import org.datavec.hadoop.records.reader.mapfile.record.RecordWritable;
import org.datavec.hadoop.records.reader.mapfile.record.SequenceRecordWritable;
import org.datavec.hadoop.records.writer.mapfile.MapFileRecordWriter;
import org.datavec.hadoop.records.writer.mapfile.MapFileSequenceRecordWriter;

/**
 * Reads files of Hadoop and DL4J, and writes copies with Hadoop's own writers. The arguments are triples: an action, a file or folder, and the
 * path of the copy. The actions are:
 *
 * sequence: reads a file with SequenceFile.Reader, and writes the copy with SequenceFile.Writer.
 * map: reads a file with MapFile.Reader, looks up each key, and writes the copy with MapFile.Writer. The index interval precedes the copy's path.
 * text: runs `hadoop fs -text`.
 * records, sequences: read all map files in a folder with DL4J's readers.
 * written: writes Hadoop files of many classes and codecs to a folder.
 * converted: reads a CSV file, and writes DL4J's map files to the copy.
 *
 * Prints tab-separated lines: the number of the triple, then the result.
 */
public class HadoopFiles {
    private static final Configuration CONF = new Configuration();
    private static final PrintStream OUT = System.out;

    public static void main(String[] arguments) throws Exception {
        for (int at = 0; at < arguments.length; at += 3) {
            String number = Integer.toString(at / 3);
            String from = arguments[at + 1];
            switch (arguments[at]) {
                case "sequence" -> sequence(number, new Path(from), new Path(arguments[at + 2]));
                case "map" -> map(number, new Path(from), arguments[at + 2]);
                case "text" -> text(number, from);
                case "records" -> records(number, new File(from));
                case "sequences" -> sequences(number, new File(from));
                case "written" -> written(new File(from));
                case "converted" -> converted(new File(from), new File(arguments[at + 2]));
                default -> throw new IllegalArgumentException(arguments[at]);
            }
        }
        OUT.flush();
    }

    private static void sequence(String number, Path from, Path to) throws Exception {
        try (SequenceFile.Reader reader = new SequenceFile.Reader(CONF, SequenceFile.Reader.file(from));
                SequenceFile.Writer writer = SequenceFile.createWriter(CONF, SequenceFile.Writer.file(to),
                        SequenceFile.Writer.keyClass(reader.getKeyClass()), SequenceFile.Writer.valueClass(reader.getValueClass()),
                        SequenceFile.Writer.compression(reader.getCompressionType(), new DefaultCodec()))) {
            Writable key = (Writable) ReflectionUtils.newInstance(reader.getKeyClass(), CONF);
            Writable value = (Writable) ReflectionUtils.newInstance(reader.getValueClass(), CONF);
            print(number, "classes", reader.getKeyClassName(), reader.getValueClassName(), reader.getCompressionType().name());
            while (reader.next(key, value)) {
                print(number, "pair", shown(key), shown(value));
                writer.append(key, value);
            }
        }
    }

    private static void map(String number, Path from, String to) throws Exception {
        String[] parts = to.split(":", 2);
        MapFile.Writer.setIndexInterval(CONF, Integer.parseInt(parts[0]));
        List<WritableComparable> keys = new ArrayList<>();
        try (MapFile.Reader reader = new MapFile.Reader(from, CONF)) {
            SequenceFile.CompressionType type;
            try (SequenceFile.Reader data = new SequenceFile.Reader(CONF, SequenceFile.Reader.file(new Path(from, "data")))) {
                type = data.getCompressionType();
            }
            Class<? extends WritableComparable> keyClass = reader.getKeyClass().asSubclass(WritableComparable.class);
            print(number, "classes", reader.getKeyClass().getName(), reader.getValueClass().getName(), type.name());
            Writable value = (Writable) ReflectionUtils.newInstance(reader.getValueClass(), CONF);
            try (MapFile.Writer writer = new MapFile.Writer(CONF, new Path(parts[1]), MapFile.Writer.keyClass(keyClass),
                    MapFile.Writer.valueClass(reader.getValueClass()), MapFile.Writer.compression(type, new DefaultCodec()))) {
                while (true) {
                    WritableComparable key = ReflectionUtils.newInstance(keyClass, CONF);
                    if (!reader.next(key, value)) {
                        break;
                    }
                    print(number, "pair", shown(key), shown(value));
                    writer.append(key, value);
                    keys.add(key);
                }
            }
            for (int at = keys.size() - 1; at >= 0; at--) {
                print(number, "got", shown(keys.get(at)), shown(reader.get(keys.get(at), value)));
            }
        }
    }

    private static void text(String number, String from) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        int code = new FsShell(CONF).run(new String[] {"-text", from});
        System.setOut(OUT);
        for (String line : said.toString(StandardCharsets.UTF_8).split("\n")) {
            print(number, Integer.toString(code), line);
        }
    }

    private static void records(String number, File folder) throws Exception {
        MapFileRecordReader reader = new MapFileRecordReader();
        reader.initialize(new FileSplit(folder));
        while (reader.hasNext()) {
            print(number, "record", values(reader.next()));
        }
        List<String> parts = new ArrayList<>();
        for (File part : folder.listFiles((parent, name) -> name.startsWith("part-"))) {
            parts.add(part.getAbsolutePath());
        }
        try (MapFileReader<RecordWritable> any = new MapFileReader<>(parts, new LongIndexToKey(), RecordWritable.class)) {
            for (long index = any.numRecords() - 1; index >= 0; index--) {
                print(number, "got", Long.toString(index), values(any.getRecord(index).getRecord()));
            }
        }
    }

    private static void sequences(String number, File folder) throws Exception {
        MapFileSequenceRecordReader reader = new MapFileSequenceRecordReader();
        reader.initialize(new FileSplit(folder));
        while (reader.hasNext()) {
            print(number, "record", steps(reader.sequenceRecord()));
        }
    }

    private static final int WRITTEN = 3000;

    private interface Numbered {
        Writable of(int number);
    }

    private static void written(File folder) throws Exception {
        folder.mkdirs();
        for (CompressionCodec codec : new CompressionCodec[] {new DefaultCodec(), new DeflateCodec(), new BZip2Codec(), new SnappyCodec()}) {
            ((Configurable) codec).setConf(CONF);
            for (SequenceFile.CompressionType type : SequenceFile.CompressionType.values()) {
                String name = codec.getClass().getSimpleName() + "-" + type;
                write(new File(folder, name), type, codec, Text.class, LongWritable.class,
                        n -> new Text("key " + n + " \u00e9".repeat(n % 90)), n -> new LongWritable((long) n * n * n - 1000));
            }
        }
        SequenceFile.CompressionType none = SequenceFile.CompressionType.NONE;
        SequenceFile.CompressionType block = SequenceFile.CompressionType.BLOCK;
        write(new File(folder, "small"), none, null, ShortWritable.class, ByteWritable.class,
                n -> new ShortWritable((short) (n * 17)), n -> new ByteWritable((byte) n));
        write(new File(folder, "variable"), none, null, VIntWritable.class, VLongWritable.class,
                n -> new VIntWritable((n % 2 == 0 ? 1 : -1) * n * n * 200), n -> new VLongWritable((n % 2 == 0 ? 1L : -1L) << (n % 64)));
        write(new File(folder, "floats"), block, new DefaultCodec(), BooleanWritable.class, FloatWritable.class,
                n -> new BooleanWritable(n % 3 == 0), n -> new FloatWritable(n / 8f));
        write(new File(folder, "bytes"), none, null, DoubleWritable.class, BytesWritable.class,
                n -> new DoubleWritable(n / 3.0), n -> new BytesWritable(new byte[n % 200]));
        for (CompressionCodec codec : new CompressionCodec[] {new DefaultCodec(), new SnappyCodec()}) {
            ((Configurable) codec).setConf(CONF);
            write(new File(folder, "arrays-" + codec.getClass().getSimpleName()), block, codec, NullWritable.class, ArrayPrimitiveWritable.class,
                    n -> NullWritable.get(), n -> new ArrayPrimitiveWritable(floats(n)));
        }
    }

    private static float[] floats(int number) {
        float[] made = new float[number % 7];
        for (int at = 0; at < made.length; at++) {
            made[at] = number + at / 4f;
        }
        return made;
    }

    private static void write(File to, SequenceFile.CompressionType type, CompressionCodec codec, Class<?> key, Class<?> value, Numbered keys,
            Numbered values) throws Exception {
        SequenceFile.Metadata about = new SequenceFile.Metadata();
        about.set(new Text("made by"), new Text("Hadoop"));
        try (SequenceFile.Writer writer = SequenceFile.createWriter(CONF, SequenceFile.Writer.file(new Path(to.getPath())),
                SequenceFile.Writer.keyClass(key), SequenceFile.Writer.valueClass(value), SequenceFile.Writer.metadata(about),
                SequenceFile.Writer.compression(type, codec))) {
            for (int number = 0; number < WRITTEN; number++) {
                writer.append(keys.of(number), values.of(number));
                if (number % 1000 == 999) {
                    writer.sync();
                }
            }
        }
    }

    private static void converted(File csv, File to) throws Exception {
        CSVRecordReader reader = new CSVRecordReader();
        reader.initialize(new FileSplit(csv));
        MapFileRecordWriter texts = new MapFileRecordWriter(new File(to, "texts"), 50);
        RecordReaderConverter.convert(reader, texts);
        texts.close();
        MapFileRecordWriter typed = new MapFileRecordWriter(new File(to, "typed"), 50);
        MapFileSequenceRecordWriter sequences = new MapFileSequenceRecordWriter(new File(to, "sequences"), 50);
        for (int number = 0; number < 120; number++) {
            typed.write(List.of(new org.datavec.api.writable.IntWritable(number - 60), new org.datavec.api.writable.DoubleWritable(number / 3.0),
                    new org.datavec.api.writable.FloatWritable(number / 8f), new org.datavec.api.writable.LongWritable((long) number << 40),
                    new org.datavec.api.writable.BooleanWritable(number % 2 == 0),
                    number % 10 == 9 ? org.datavec.api.writable.NullWritable.INSTANCE : new org.datavec.api.writable.Text("text " + number)));
            List<List<org.datavec.api.writable.Writable>> steps = new ArrayList<>();
            for (int step = 0; step <= number % 4; step++) {
                steps.add(List.of(new org.datavec.api.writable.IntWritable(step), new org.datavec.api.writable.Text("at " + number)));
            }
            sequences.write(steps);
        }
        typed.close();
        sequences.close();
    }

    private static String shown(Writable object) {
        if (object instanceof Text text) {
            return "Text " + hex(text.copyBytes());
        }
        if (object instanceof BytesWritable bytes) {
            return "Bytes " + hex(bytes.copyBytes());
        }
        if (object instanceof RecordWritable record) {
            return values(record.getRecord());
        }
        if (object instanceof SequenceRecordWritable sequence) {
            return steps(sequence.getSequenceRecord());
        }
        if (object instanceof ArrayPrimitiveWritable array) {
            StringBuilder out = new StringBuilder(array.getComponentType().getName());
            for (int at = 0; at < Array.getLength(array.get()); at++) {
                out.append(' ').append(Array.get(array.get(), at));
            }
            return out.toString();
        }
        return object.getClass().getSimpleName() + " " + object;
    }

    private static String steps(List<List<org.datavec.api.writable.Writable>> sequence) {
        List<String> steps = new ArrayList<>();
        for (List<org.datavec.api.writable.Writable> step : sequence) {
            steps.add(values(step));
        }
        return String.join(";", steps);
    }

    private static String values(List<org.datavec.api.writable.Writable> record) {
        List<String> values = new ArrayList<>();
        for (org.datavec.api.writable.Writable value : record) {
            boolean isText = value instanceof org.datavec.api.writable.Text;
            values.add(value.getType() + " " + (isText ? hex(value.toString().getBytes(StandardCharsets.UTF_8)) : value.toString()));
        }
        return String.join("|", values);
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    private static void print(String... fields) {
        OUT.println(String.join("\t", fields));
    }
}
