import java.io.File;
import java.net.URI;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.StringJoiner;
import org.datavec.api.io.labels.ParentPathLabelGenerator;
import org.datavec.api.split.FileSplit;
import org.deeplearning4j.datasets.iterator.file.FileDataSetIterator;
import org.deeplearning4j.datasets.iterator.file.FileMultiDataSetIterator;
import org.nd4j.common.loader.FileBatch;
import org.nd4j.linalg.api.ndarray.INDArray;
import org.nd4j.linalg.dataset.DataSet;
import org.nd4j.linalg.dataset.MultiDataSet;

/**
 * Prints what DL4J's own classes read from files, one line per item: the kind, the file's name, the item, its value.
 * The arguments are pairs of a kind (DataSet, MultiDataSet, FileBatch, Labels) and a file.
 */
public class ReadDl4j {
    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < arguments.length; i += 2) {
            File file = new File(arguments[i + 1]);
            switch (arguments[i]) {
                case "DataSet":
                    DataSet data = new DataSet();
                    data.load(file);
                    array(file, "features", data.getFeatures());
                    array(file, "labels", data.getLabels());
                    array(file, "featuresMask", data.getFeaturesMaskArray());
                    array(file, "labelsMask", data.getLabelsMaskArray());
                    break;
                case "MultiDataSet":
                    MultiDataSet several = new MultiDataSet();
                    several.load(file);
                    arrays(file, "features", several.getFeatures());
                    arrays(file, "labels", several.getLabels());
                    arrays(file, "featuresMask", several.getFeaturesMaskArrays());
                    arrays(file, "labelsMask", several.getLabelsMaskArrays());
                    break;
                case "FileBatch":
                    FileBatch batch = FileBatch.readFromZip(file);
                    for (int n = 0; n < batch.getFileBytes().size(); n++) {
                        String uri = batch.getOriginalUris().get(n);
                        URI.create(uri);
                        line(file, uri, HexFormat.of().formatHex(batch.getFileBytes().get(n)));
                    }
                    break;
                case "Labels":
                    for (String uri : FileBatch.readFromZip(file).getOriginalUris()) {
                        line(file, new ParentPathLabelGenerator().getLabelForPath(URI.create(uri)).toString(), new File(URI.create(uri)).length());
                    }
                    break;
                case "DataSetFolder":
                    long records = 0;
                    int minibatches = 0;
                    for (FileDataSetIterator every = new FileDataSetIterator(file); every.hasNext(); minibatches++) {
                        records += every.next().numExamples();
                    }
                    line(file, "minibatches", minibatches);
                    line(file, "records", records);
                    break;
                case "MultiDataSetFolder":
                    long examples = 0;
                    int batches = 0;
                    for (FileMultiDataSetIterator every = new FileMultiDataSetIterator(file); every.hasNext(); batches++) {
                        examples += every.next().getFeatures(0).size(0);
                    }
                    line(file, "minibatches", batches);
                    line(file, "records", examples);
                    break;
                case "FileBatchFolder":
                    // Reads all files of a FileSplit as FileBatches, like users of FileBatchRecordReader.
                    long inside = 0;
                    URI[] found = new FileSplit(file).locations();
                    for (URI uri : found) {
                        inside += FileBatch.readFromZip(new File(uri)).getFileBytes().size();
                    }
                    line(file, "minibatches", found.length);
                    line(file, "records", inside);
                    break;
                default:
                    throw new IllegalArgumentException(arguments[i]);
            }
        }
    }

    private static void arrays(File file, String what, INDArray[] arrays) {
        for (int n = 0; arrays != null && n < arrays.length; n++) {
            array(file, what + n, arrays[n]);
        }
    }

    /** Prints type, shape and row-major values; floats as the bits of a double. */
    private static void array(File file, String what, INDArray array) {
        if (array == null) {
            return;
        }
        StringJoiner values = new StringJoiner(",");
        INDArray flat = array.reshape('c', new long[] {array.length()});
        for (long n = 0; n < flat.length(); n++) {
            values.add(flat.dataType().isFPType() ? Long.toHexString(Double.doubleToLongBits(flat.getDouble(n))) : Long.toString(flat.getLong(n)));
        }
        line(file, what, flat.dataType() + " " + Arrays.toString(array.shape()).replace(" ", "") + " " + values);
    }

    private static void line(File file, String what, Object value) {
        System.out.println(file + "\t" + what + "\t" + value);
    }
}
