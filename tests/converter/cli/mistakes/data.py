"""Mistakes that show only in the data: paths, columns, classes, the output."""

from collections.abc import Sequence
from typing import Final

from tests.converter.cli.mistakes.table import CSV, HEAD, NUMBERS, OUT, Mistake

MISTAKES: Final[Sequence[Mistake]] = (
    Mistake(
        "too few classes",
        job=CSV + "  labels: [{name: label, numClasses: 2}]\n" + OUT,
        code=3,
        said="a.csv, record 2: line 4: label 2 is outside 0..1. If 2 is a class, numClasses of the label 'label' must be at least 3, got 2.",
    ),
    Mistake(
        "a filter by a list of texts and numbers",
        job=CSV + "  transforms:\n  - filter: {where: x > 1}\n  - filter: {where: \"label in [1, 'a']\"}\n" + OUT,
        said="job.yaml:8:5: The transform filter: \"label in [1, 'a']\": the values of a list must be all numbers, all texts or all booleans, but 1 is a number and 'a' is a text.",
    ),
    Mistake(
        "a CSV file for images",
        job=HEAD + "  source: {images: {uris: [a.csv]}}\n" + OUT,
        code=5,
        said="The source images contains no records, only 1 file of another kind: run dataprep infer a.csv to find the source that reads them, or set allowEmpty: true if this is intended.",
    ),
    Mistake(
        "a folder of CSV files for images",
        job=HEAD + "  source: {images: {uris: [in]}}\n" + OUT,
        files={"in/a.csv": NUMBERS},
        code=5,
        said="The source images contains no records, only 1 file of another kind: run dataprep infer in to find the source that reads them, or set allowEmpty: true if this is intended.",
    ),
    Mistake(
        "only hidden files",
        job=HEAD + "  source: {csv: {uris: [in]}}\n" + OUT,
        files={"in/_a.csv": NUMBERS, "in/.b.csv": NUMBERS},
        code=5,
        said="in names no file except hidden ones (2): a file or folder whose name begins with _ or a dot is read only if the source names it.",
    ),
    Mistake(
        "only hidden files for images",
        job=HEAD + "  source: {images: {uris: [in]}}\n" + OUT,
        files={"in/_a.png": "x", "in/.b.csv": NUMBERS},
        code=5,
        said="in names no file except hidden ones (2): a file or folder whose name begins with _ or a dot is read only if the source names it.",
    ),
    Mistake(
        "an empty folder",
        job=HEAD + "  source: {csv: {uris: [in]}}\n" + OUT,
        files={"in/x/": None},
        code=5,
        said="The source in doesn't exist: there is no such file, and no file below it.",
    ),
    Mistake(
        "an empty file",
        job=CSV + OUT,
        files={"a.csv": ""},
        code=5,
        said="The source csv contains no records; set allowEmpty: true if this is intended.",
    ),
    Mistake(
        "only a header",
        job=CSV + OUT,
        files={"a.csv": "a,b\n"},
        code=5,
        said="The source csv contains no records; set allowEmpty: true if this is intended.",
    ),
    Mistake(
        "an output that is a file",
        job=CSV + "  output: {uri: b}\n",
        files={"a.csv": NUMBERS, "b": "x"},
        code=5,
        said="A part of the path b/_dataprep is a file, but must be a folder: Not a directory.",
    ),
    Mistake(
        "abfs:// without an account",
        job=HEAD + "  source: {csv: {uris: ['abfs://c/a.csv']}}\n" + OUT,
        said="abfs://c/a.csv names no account: write abfs://container@account.dfs.core.windows.net/path, or abfs://container/path with AZURE_STORAGE_ACCOUNT_NAME in the environment.",
    ),
    Mistake(
        "abfss:// without credentials",
        job=HEAD + "  source: {csv: {uris: ['abfss://c@acc.dfs.core.windows.net/a.csv']}}\n" + OUT,
        code=5,
        said="No credentials for Azure: give the store a Secret (accountKey, sasToken, or tenantId, clientId and clientSecret), set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, log in with `az login`, or run with a workload identity or a managed identity. A public container needs anonymous: true in stores.",
    ),
    Mistake(
        "wasbs://", job=HEAD + "  source: {csv: {uris: ['wasbs://c/a.csv']}}\n" + OUT, said="No store for wasbs://; write abfss:// instead"
    ),
    Mistake(
        "dbfs:/",
        job=HEAD + "  source: {csv: {uris: ['dbfs:/mnt/a.csv']}}\n" + OUT,
        said="dbfs:/mnt/a.csv is a Databricks path: on Databricks machines, write /dbfs/mnt/a.csv.",
    ),
    Mistake(
        "dbfs://",
        job=HEAD + "  source: {csv: {uris: ['dbfs://mnt/a.csv']}}\n" + OUT,
        said="dbfs://mnt/a.csv: fsspec needs more than an address (DatabricksFileSystem.__init__() missing 2 required positional arguments: 'instance' and 'token'): set FSSPEC_DBFS_… variables.",
    ),
    Mistake("s3a://", job=HEAD + "  source: {csv: {uris: ['s3a://b/a.csv']}}\n" + OUT, said="No store for s3a://; write s3:// instead"),
    Mistake("s3n://", job=HEAD + "  source: {csv: {uris: ['s3n://b/a.csv']}}\n" + OUT, said="No store for s3n://; write s3:// instead"),
    Mistake("gcs://", job=HEAD + "  source: {csv: {uris: ['gcs://b/a.csv']}}\n" + OUT, said="No store for gcs://; write gs:// instead"),
    Mistake(
        "dropbox:// without its client",
        job=HEAD + "  source: {csv: {uris: ['dropbox://x/a.csv']}}\n" + OUT,
        said='dropbox:// is read through fsspec, whose client for this scheme isn\'t installed: DropboxFileSystem requires "dropboxdrivefs","requests" and ""dropbox" to be installed.',
    ),
    Mistake(
        "s3:/",
        job=HEAD + "  source: {csv: {uris: ['s3:/b/a.csv']}}\n" + OUT,
        said="s3:/b/a.csv has only one slash after s3:, so it would be a local path; write s3://b/a.csv.",
    ),
    Mistake("an unknown scheme", job=HEAD + "  source: {csv: {uris: ['xyz://b/a.csv']}}\n" + OUT, said="No store for xyz://"),
    Mistake(
        "a path of Windows",
        job=HEAD + "  source: {csv: {uris: ['C:\\data\\a.csv']}}\n" + OUT,
        said="C:\\data\\a.csv is a Windows path; in WSL, write /mnt/c/data/a.csv.",
    ),
    Mistake(
        "file:/",
        job=HEAD + "  source: {csv: {uris: ['file:/tmp/a.csv']}}\n" + OUT,
        said="file:/tmp/a.csv has only one slash after file:, so it would be a local path; write file:///tmp/a.csv.",
    ),
    Mistake(
        "file:// without a path",
        job=HEAD + "  source: {csv: {uris: ['file://a.csv']}}\n" + OUT,
        code=5,
        said="file://a.csv: a file URI has no host (file:///path), but this one has 'a.csv'.",
    ),
    Mistake(
        "~ in the source",
        job=HEAD + "  source: {csv: {uris: ['~/a.csv']}}\n" + OUT,
        said="~/a.csv: only a shell replaces ~ with a home folder; write /home/me/a.csv.",
    ),
    Mistake(
        "~ in the output",
        job=CSV + "  output: {uri: ~/out}\n",
        said="~/out: only a shell replaces ~ with a home folder; write /home/me/out.",
    ),
    Mistake(
        "$HOME",
        job=CSV + "  output: {uri: $HOME/out}\n",
        said="$HOME/out: only a shell replaces $HOME; write the path itself, or write ${NAME} and pass --set params.NAME=$HOME.",
    ),
    Mistake(
        "a relative path from elsewhere",
        job=HEAD + "  source: {csv: {uris: [data/a.csv]}}\n" + OUT,
        code=5,
        said="The source data/a.csv doesn't exist: there is no such file, and no file below it ({here} has no data).",
    ),
    Mistake(
        "a misspelt file",
        job=HEAD + "  source: {csv: {uris: [a.cvs]}}\n" + OUT,
        code=5,
        said="The source a.cvs doesn't exist: there is no such file, and no file below it ({here} has no a.cvs; did you mean a.csv?).",
    ),
    Mistake(
        "a glob that matches nothing", job=HEAD + "  source: {csv: {uris: ['*.csv.gz']}}\n" + OUT, code=5, said="*.csv.gz names no file."
    ),
    Mistake(
        "an output with other files",
        job=CSV + OUT,
        files={"a.csv": NUMBERS, "out/x": "s"},
        code=5,
        said="out contains x, which no dataprep run planned there; it is never overwritten. Move it away or choose another output.uri.",
    ),
    Mistake(
        "an output with other files, and Never",
        job=CSV + "  output: {uri: out, overwrite: Never}\n",
        files={"a.csv": NUMBERS, "out/x": "s"},
        code=5,
        said="out contains x, which no dataprep run planned there; it is never overwritten. Move it away or choose another output.uri.",
    ),
    Mistake(
        "CSV for jsonl",
        job=HEAD + "  source: {jsonl: {uris: [a.csv]}}\n" + OUT,
        said='a.csv, line 1: not JSON: Expecting value at character 1. source.jsonl reads an object in each line, such as {"a": 1}, or a file that is one array of objects.',
    ),
    Mistake(
        "a JSON array that is cut",
        job=HEAD + "  source: {jsonl: {uris: [a.json]}}\n" + OUT,
        files={"a.json": '[\n {"a": 1},\n {"a": 2}'},
        code=3,
        said="a.json: the array is never closed, so the file may be incomplete.",
    ),
    Mistake(
        "CSV for parquet",
        job=HEAD + "  source: {parquet: {uris: [a.csv]}}\n" + OUT,
        code=3,
        said="a.csv is not a readable Parquet file: Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.",
    ),
    Mistake(
        "Parquet for csv",
        job=CSV + OUT,
        files={"a.csv": b"PAR1\x00\x01\x02\x00PAR1"},
        said="a.csv is a Parquet file: use source.parquet.",
    ),
    Mistake(
        "Latin-1 for csv",
        job=CSV + OUT,
        files={"a.csv": b"name,x\nJos\xe9,1\nb,2\n"},
        code=3,
        said="a.csv, record 0: line 2: column 'name' is not UTF-8. If the file has another encoding, name it in the source, such as encoding: Latin1. Otherwise, set onBadRecord.policy: Skip to leave such records out.",
    ),
    Mistake(
        "a row with too many cells",
        job=CSV + OUT,
        files={"a.csv": "a,b\n1,2\n3,4,5\n"},
        code=3,
        said="a.csv, record 1: line 3: expect 2 fields but have 3. Set onBadRecord.policy: Skip to leave such records out.",
    ),
    Mistake(
        "a quote in CSV that is never closed",
        job=CSV + OUT,
        files={"a.csv": 'a,b\n"1,2\n3,4\n'},
        code=3,
        said="a.csv, line 2: a quote is never closed.",
    ),
    Mistake(
        "a negative class",
        job=CSV + "  labels: [{name: label, numClasses: 3}]\n" + OUT,
        files={
            "a.csv": "x,y,label\n0,0.5,-1\n1,1.5,1\n2,2.5,2\n3,3.5,0\n4,4.5,1\n5,5.5,2\n6,6.5,0\n7,7.5,1\n8,8.5,2\n9,9.5,0\n10,10.5,1\n11,11.5,2\n"
        },
        code=3,
        said="a.csv, record 0: line 2: label -1 is outside 0..2. Classes are numbered from 0; use a vocabulary in transforms to number the values of 'label'.",
    ),
    Mistake(
        "a word for a missing value among numbers",
        job=CSV.replace("csv: {", "csv: {columns: [{name: x, type: Int64}, {name: y, type: Float32}, {name: label, type: Int64}], ") + OUT,
        files={"a.csv": "x,y,label\n0,0.5,1\n1,?,1\n"},
        code=3,
        said="""a.csv, record 1: line 3: '?' is not a Float32 (column 'y'). If '?' is a missing value, add nullWordsOf: {"y": ["?"]} to source.csv. Otherwise, set onBadRecord.policy: Skip to leave such records out.""",
    ),
    Mistake(
        "a fraction as a class",
        job=CSV + "  labels: [{name: y, numClasses: 3}]\n" + OUT,
        code=3,
        said="a.csv, record 0: line 2: y 0.5 does not fit int64. Set onBadRecord.policy: Skip to leave such records out.",
    ),
    Mistake(
        "a broken image",
        job=HEAD + "  source: {images: {uris: [in], labelFrom: None}}\n" + OUT,
        files={"in/a.png": b"no image"},
        code=3,
        said="in/a.png, record 0: not an image: it begins with 6e 6f 20 69 6d 61 67 65. Set onBadRecord.policy: Skip to leave such records out.",
    ),
    Mistake(
        "an image without a folder",
        job=HEAD + "  source: {images: {uris: ['a.png']}}\n" + OUT,
        files={"a.png": b"no image"},
        said="a.png isn't in a folder whose name could be its class (labelFrom: ParentFolder); set labelFrom: None for images without classes.",
    ),
    Mistake(
        "CSV for idx",
        job=HEAD + "  source: {idx: {subsets: [{name: train, images: a.csv}]}}\n" + OUT,
        code=3,
        said="a.csv is not an IDX file: expected 00 00, a type (08 uint8, 09 int8, 0b int16, 0c int32, 0d float32, 0e float64) and the number of dimensions, got 78 2c 79 2c.",
    ),
    Mistake(
        "CSV for numpy",
        job=HEAD + "  source: {numpy: {uris: [a.csv]}}\n" + OUT,
        code=3,
        said="a.csv is not a complete .npy file: the magic string is not correct; expected b'\\x93NUMPY', got b'x,y,la'.",
    ),
    Mistake(
        "CSV for tfrecord",
        job=HEAD + "  source: {tfrecord: {uris: [a.csv]}}\n" + OUT,
        code=3,
        said="a.csv: bad length CRC (is it a TFRecord file?) at offset 0.",
    ),
    Mistake(
        "CSV for libsvm",
        job=HEAD + "  source: {libsvm: {uris: [a.csv]}}\n" + OUT,
        code=3,
        said="a.csv, record 0: line 1: the label 'x,y,label' is not a number. Set onBadRecord.policy: Skip to leave such records out.",
    ),
    Mistake(
        "raw data for dataset",
        job=HEAD + "  source: {dataset: {uri: in}}\n" + OUT,
        files={"in/a.csv": NUMBERS},
        code=5,
        said="in has no _SUCCESS: there is no finished data set. For raw data, run dataprep infer.",
    ),
)
