import java.security.MessageDigest;
import java.util.HexFormat;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Text;

/** Reads SequenceFiles with Hadoop's own reader, and prints the SHA-256 of each key (a Text) and of each value (a BytesWritable). */
public class SequenceFiles {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        Text key = new Text();
        BytesWritable value = new BytesWritable();
        for (String name : arguments) {
            try (SequenceFile.Reader reader = new SequenceFile.Reader(configuration, SequenceFile.Reader.file(new Path(name)))) {
                while (reader.next(key, value)) {
                    String first = HexFormat.of().formatHex(digest.digest(key.copyBytes()));
                    System.out.println(first + " " + HexFormat.of().formatHex(digest.digest(value.copyBytes())));
                }
            }
        }
    }
}
