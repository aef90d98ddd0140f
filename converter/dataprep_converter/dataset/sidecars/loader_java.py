"""`LoadHadoop.java` and `LoadDl4j.java`: single-file programs that use the readers of hadoop-common and ND4J."""

from string import Template
from typing import Final

from dataprep_api import names
from dataprep_api.spec.formats.map_file import MapFileOptions
from dataprep_api.spec.formats.sequence_file import SequenceFileOptions
from dataprep_converter.dataset.sidecars import FinishedDataSet, loader_source

_COMMON: Final = """\
    /** The split's files, in their order. */
    static List<String> files(String folder, String split) throws Exception {
        return Files.readAllLines(Path.of(folder, "_dataprep/files", split + ".txt")).stream().map(file -> folder + "/" + file).toList();
    }

    public static void main(String[] arguments) throws Exception {
        for (String[] split : SPLITS) {
            long found = 0;
            for (String file : files(arguments[0], split[0])) {
                found += load(file);
            }
            System.out.println(split[0] + ": " + found + " of " + split[1] + " records");
        }
    }
}
"""
_HADOOP: Final = Template(
    """\
import java.nio.file.Files;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * Loads this data set with hadoop-common: java -cp "hadoop-jars/*" LoadHadoop.java FOLDER counts its records; $value
 */
class LoadHadoop {
    static final String[][] SPLITS = {$splits};

    /** Reads a file's records. In a MapReduce or Spark job, SequenceFileInputFormat does so. */
    static long load(String file) throws Exception {
        Configuration conf = new Configuration();
        long found = 0;
        try (SequenceFile.Reader reader = new SequenceFile.Reader(conf, SequenceFile.Reader.file(new Path(file)))) {
            Writable key = (Writable) ReflectionUtils.newInstance(reader.getKeyClass(), conf);
            Writable value = (Writable) ReflectionUtils.newInstance(reader.getValueClass(), conf);
            while (reader.next(key, value)) {
                found++; // here is a record: key and value, which the next one overwrites
            }
        }
        return found;
    }

"""
    + _COMMON.replace("Path.of", "java.nio.file.Path.of")
)
_DL4J: Final = Template(
    """\
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.nd4j.$package;

/** Loads this data set with ND4J: java -cp "nd4j-jars/*" LoadDl4j.java FOLDER counts its records.$folders */
class LoadDl4j {
    static final String[][] SPLITS = {$splits};

$load
"""
    + _COMMON
)
_DATASET: Final = """\
    /** A file's minibatch; org.nd4j.linalg.dataset.$kind is what fit() takes. */
    static long load(String file) throws Exception {
        $kind data = new $kind();
        data.load(new File(file));
        return data.isEmpty() ? 0 : data.getFeatures($first).size(0);
    }
"""
_BATCH: Final = """\
    /** A file's raw files and their URIs: FileBatchRecordReader of DataVec makes records of them. */
    static long load(String file) throws Exception {
        FileBatch batch = FileBatch.readFromZip(new File(file));
        return batch.getFileBytes().size(); // getFileBytes().get(n) came from getOriginalUris().get(n)
    }
"""


def hadoop_options(finished: FinishedDataSet) -> SequenceFileOptions | MapFileOptions:
    """Returns the format options of a data set in a Hadoop format."""
    options = finished.spec.output.options
    assert isinstance(options, SequenceFileOptions | MapFileOptions)  # noqa: S101 - only their entries in FORMATS name these loaders
    return options


def hadoop(finished: FinishedDataSet) -> str:
    """Returns `LoadHadoop.java`."""
    notes = {
        "Example": "a value is a BytesWritable with a tf.train.Example.",
        "Feature": "a value is the feature's own Writable.",
        "Record": "a value is DL4J's RecordWritable or SequenceRecordWritable: datavec-hadoop 1.0.0-beta6 is needed, too.",
    }
    return loader_source.filled(_HADOOP, splits=_splits(finished), value=notes[hadoop_options(finished).value])


def file_batch(finished: FinishedDataSet) -> str:
    """Returns `LoadDl4j.java` for `fileBatch`."""
    return loader_source.filled(_DL4J, splits=_splits(finished), folders=_folders(finished), package="common.loader.FileBatch", load=_BATCH)


def dl4j_dataset(finished: FinishedDataSet) -> str:
    """Returns `LoadDl4j.java` for `dl4jDataset`."""
    kind = finished.spec.output.dl4j_dataset.holds
    load = Template(_DATASET).substitute(kind=kind, first="0" if kind == "MultiDataSet" else "")
    return loader_source.filled(_DL4J, splits=_splits(finished), folders=_folders(finished), package=f"linalg.dataset.{kind}", load=load)


def _folders(finished: FinishedDataSet) -> str:
    """Returns a sentence that names the splits' folders, for loaders that read all files of a folder.

    If splits have no separate folders, returns the empty string.
    """
    version = finished.manifest.parts.get("dl4jFolders", 1)
    output, splits = finished.spec.output, [split.name for split in finished.manifest.splits]
    folders = [
        names.split_folder(output.template, format_=output.format, split=name, several_splits=len(splits) > 1, dl4j_folders=version)
        for name in splits
    ]
    if None in folders:
        return ""
    return f" Loaders that take every file of a folder (FileDataSetIterator, SparkUtils.listPaths) get FOLDER/{', FOLDER/'.join(map(str, folders))}."


def _splits(finished: FinishedDataSet) -> str:
    return ", ".join(f'{{"{split.name}", "{split.records}"}}' for split in finished.manifest.splits)
