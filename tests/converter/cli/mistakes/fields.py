"""Mistakes in the fields of a job: names, places, types and values."""

from collections.abc import Sequence
from typing import Final

from tests.converter.cli.mistakes.table import CSV, HEAD, IRIS, NUMBERS, OUT, Mistake

MISTAKES: Final[Sequence[Mistake]] = (
    Mistake(
        "an output below the input file",
        job=CSV + "  output: {uri: a.csv/out}\n",
        said="job.yaml:6:17: output.uri a.csv/out lies in the input a.csv, so the job would read what it writes: choose an output.uri outside of it.",
    ),
    Mistake(
        "a field of csv beside csv",
        job=HEAD + "  source: {csv: {uris: [a.csv]}, delimiter: ;}\n" + OUT,
        said="job.yaml:5:34: spec.source.delimiter: unknown field; it belongs under csv (spec.source.csv.delimiter)",
    ),
    Mistake(
        "a field of csv in the spec",
        job=CSV + "  output: {uri: out}\n  delimiter: ';'\n",
        said="job.yaml:7:3: spec.delimiter: unknown field; it belongs under csv (spec.source.csv.delimiter)",
    ),
    Mistake(
        "uris beside the kind of source",
        job=HEAD + "  source: {uris: [a.csv]}\n" + OUT,
        said="job.yaml:5:12: spec.source.uris: unknown field; it belongs one level deeper, under images, csv, csvSequences, jsonl, text, parquet, arrow, avro or others",
    ),
    Mistake(
        "features within the source",
        job=HEAD + "  source: {csv: {uris: [a.csv], features: [{name: x}]}}\n" + OUT,
        said="job.yaml:5:33: spec.source.csv.features: unknown field; it belongs under spec (spec.features)",
    ),
    Mistake(
        "count beside shards",
        job=CSV + "  output: {uri: out, count: 3}\n",
        said="job.yaml:6:22: spec.output.count: unknown field; it belongs under shards (spec.output.shards.count)",
    ),
    Mistake(
        "fields outside of the spec",
        job="apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: a-job}\nsource: {csv: {uris: [a.csv]}}\noutput: {uri: out}\n",
        said=(
            "job.yaml:1:1: spec: is required\njob.yaml:4:1: source: unknown field; it belongs under spec (spec.source)\njob.yaml:5:1: output: unknown field; it belongs under spec (spec.output)"
        ),
    ),
    Mistake(
        "text as float32",
        job=CSV + "  features: [{name: species, dtype: float32}]\n" + OUT,
        files={"a.csv": IRIS},
        said="job.yaml:6:21: The feature 'species': species can't become float32; turn the text into numbers with the transform vocabulary, or give the column a type of numbers in the source. In the first rows of a.csv 12 of 12 cells of the column 'species' are not numbers; the first of these cells is in line 2, 'a', so the column is text. If such cells are bad or missing values, give the column a numeric type in source.csv.columns and set onBadRecord.policy: Skip, or name the words for missing values in source.csv.nullWords.",
    ),
    Mistake(
        "text as a class",
        job=CSV + "  labels: [{name: species, numClasses: 3}]\n" + OUT,
        files={"a.csv": IRIS},
        said="job.yaml:6:19: The feature 'species': numClasses needs whole numbers, but the label's type is bytes; turn the text into numbers with the transform vocabulary. In the first rows of a.csv 12 of 12 cells of the column 'species' are not numbers; the first of these cells is in line 2, 'a', so the column is text. If such cells are bad or missing values, give the column a numeric type in source.csv.columns and set onBadRecord.policy: Skip, or name the words for missing values in source.csv.nullWords.",
    ),
    Mistake(
        "text as int64",
        job=CSV + "  labels: [{name: species, dtype: int64}]\n" + OUT,
        files={"a.csv": IRIS},
        said="job.yaml:6:19: The feature 'species': species can't become int64; turn the text into numbers with the transform vocabulary, or give the column a type of numbers in the source. In the first rows of a.csv 12 of 12 cells of the column 'species' are not numbers; the first of these cells is in line 2, 'a', so the column is text. If such cells are bad or missing values, give the column a numeric type in source.csv.columns and set onBadRecord.policy: Skip, or name the words for missing values in source.csv.nullWords.",
    ),
    Mistake(
        "text to standardize",
        job=CSV + "  transforms: [{standardize: {column: species}}]\n" + OUT,
        files={"a.csv": IRIS},
        said="job.yaml:6:17: The transform standardize takes numeric tensors, but the column 'species' is string; turn the text into numbers with the transform vocabulary.",
    ),
    Mistake(
        "oneHot with column",
        job=CSV + "  transforms: [{oneHot: {column: species, numClasses: 3}}]\n" + OUT,
        files={"a.csv": IRIS},
        said=(
            "job.yaml:6:17: spec.transforms[0].oneHot.columns: is required\njob.yaml:6:26: spec.transforms[0].oneHot.column: unknown field; did you mean columns?"
        ),
    ),
    Mistake(
        "text and numbers in a vector",
        job=CSV + "  features: [{name: f, columns: [width, species]}]\n" + OUT,
        files={"a.csv": IRIS},
        said="job.yaml:6:21: The feature 'f': text and numbers can't share a vector: width (float32), species (bytes); turn the text into numbers with the transform vocabulary. In the first rows of a.csv 12 of 12 cells of the column 'species' are not numbers; the first of these cells is in line 2, 'a', so the column is text. If such cells are bad or missing values, give the column a numeric type in source.csv.columns and set onBadRecord.policy: Skip, or name the words for missing values in source.csv.nullWords.",
    ),
    Mistake(
        "a name that Kubernetes refuses",
        job="apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: My_Job}\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n",
        said="job.yaml:3:18: metadata.name: Kubernetes refuses the name 'My_Job': names have lower-case letters, digits, - and .; write my-job",
    ),
    Mistake(
        "a number for a name",
        job="apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: 7}\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n",
        said="job.yaml:3:18: metadata.name: expected text, got 7; put it in quotes",
    ),
    Mistake(
        "no metadata",
        job="apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n",
        said="job.yaml:1:1: metadata: is required",
    ),
    Mistake(
        "no space after a colon",
        job=HEAD + "  source:\n    csv:\n      uris:[a.csv]\n" + OUT,
        said="job.yaml:7:7: spec.source.csv: expected a mapping with the field uris, got 'uris:[a.csv]'; YAML needs a space after the colon",
    ),
    Mistake(
        "~ alone, which is null",
        job=CSV + "  output: {uri: ~}\n",
        said="job.yaml:6:17: spec.output.uri: has no value (in YAML, ~ and null also mean no value); expected text",
    ),
    Mistake("${HOME}", job=CSV + "  output: {uri: '${HOME}/out'}\n", said="job.yaml:6:17: spec.output.uri: ${HOME} is not in spec.params"),
    Mistake(
        "a negative number of shards",
        job=CSV + "  output: {uri: out, shards: {count: -4}}\n",
        said="job.yaml:6:38: spec.output.shards.count: must be at least 1, got -4",
    ),
    Mistake(
        "no shards",
        job=CSV + "  output: {uri: out, shards: {count: 0}}\n",
        said="job.yaml:6:38: spec.output.shards.count: must be at least 1, got 0",
    ),
    Mistake(
        "a negative number of lines",
        job=HEAD + "  source: {csv: {uris: [a.csv], skipLines: -1}}\n" + OUT,
        said="job.yaml:5:44: spec.source.csv.skipLines: must be at least 0, got -1",
    ),
    Mistake(
        "fractions of more than 1",
        job=CSV + "  splits: {into: [{name: train, fraction: 0.8}, {name: test, fraction: 0.3}]}\n" + OUT,
        said="job.yaml:6:3: spec.splits: the fractions must sum to 1, got 1.1",
    ),
    Mistake(
        "fractions in percent",
        job=CSV + "  splits: {into: [{name: train, fraction: 80}, {name: test, fraction: 20}]}\n" + OUT,
        said=(
            "job.yaml:6:43: spec.splits.into[0].fraction: must be at most 1, got 80; write 0.8 for 80 %\njob.yaml:6:71: spec.splits.into[1].fraction: must be at most 1, got 20; write 0.2 for 20 %"
        ),
    ),
    Mistake(
        "fractions with a percent sign",
        job=CSV + "  splits: {into: [{name: train, fraction: 80%}, {name: test, fraction: 20%}]}\n" + OUT,
        said=(
            "job.yaml:6:43: spec.splits.into[0].fraction: expected a number, got '80%'; write 0.8\njob.yaml:6:72: spec.splits.into[1].fraction: expected a number, got '20%'; write 0.2"
        ),
    ),
    Mistake(
        "splits as a mapping of fractions",
        job=CSV + "  splits: {train: 0.8, test: 0.2}\n" + OUT,
        said=(
            "job.yaml:6:3: spec.splits.into: is required\njob.yaml:6:12: spec.splits.train: unknown field\njob.yaml:6:24: spec.splits.test: unknown field"
        ),
    ),
    Mistake(
        "splits as a list",
        job=CSV + "  splits: [{name: train, fraction: 0.8}]\n" + OUT,
        said="job.yaml:6:3: spec.splits: expected a mapping with the field into, got a list",
    ),
    Mistake(
        "two splits of the same name",
        job=CSV + "  splits: {into: [{name: a, fraction: 0.8}, {name: a, fraction: 0.2}]}\n" + OUT,
        said="job.yaml:6:3: spec.splits: the split 'a' is listed twice",
    ),
    Mistake(
        "a misspelt column",
        job=CSV + "  features: [{name: widht}]\n" + OUT,
        files={"a.csv": IRIS},
        said="job.yaml:6:21: The feature 'widht': there is no column 'widht'. Did you mean 'width'? The columns are width, height, species.",
    ),
    Mistake(
        "a misspelt label",
        job=CSV + "  labels: [{name: spceies}]\n" + OUT,
        files={"a.csv": IRIS},
        said="job.yaml:6:19: The feature 'spceies': there is no column 'spceies'. Did you mean 'species'? The columns are width, height, species.",
    ),
    Mistake(
        "features as texts",
        job=CSV + "  features: [x, y]\n" + OUT,
        said=(
            "job.yaml:6:14: spec.features[0]: expected a mapping with the field name, got 'x'\njob.yaml:6:17: spec.features[1]: expected a mapping with the field name, got 'y'"
        ),
    ),
    Mistake(
        "uris as a text",
        job=HEAD + "  source: {csv: {uris: a.csv}}\n" + OUT,
        said="job.yaml:5:24: spec.source.csv.uris: expected a list, got 'a.csv'; put it in brackets: [ ]",
    ),
    Mistake(
        "uri for uris",
        job=HEAD + "  source: {csv: {uri: a.csv}}\n" + OUT,
        said=("job.yaml:5:12: spec.source.csv.uris: is required\njob.yaml:5:18: spec.source.csv.uri: unknown field; did you mean uris?"),
    ),
    Mistake(
        "a source as a text",
        job=HEAD + "  source: a.csv\n" + OUT,
        said="job.yaml:5:11: spec.source: expected a mapping with one of the fields idx, images, annotatedImages, masks, csv, csvSequences, jsonl, text, parquet, arrow, avro, orc, fixedLength, wholeFile, tfrecord, sequenceFile, webdataset, mds, dataset, fromJob, numpy, libsvm, join, sql, table, plugin, got 'a.csv'",
    ),
    Mistake(
        "an output as a text",
        job=CSV + "  output: out\n",
        said="job.yaml:6:11: spec.output: expected a mapping with the field uri, got 'out'",
    ),
    Mistake(
        "a format with capitals",
        job=CSV + "  output: {uri: out, format: TFRecord}\n",
        said="job.yaml:6:30: spec.output.format: expected 'tfrecord', 'recordioProtobuf', 'sequenceFile', 'mapFile', 'parquet', 'arrow', 'jsonl', 'csv', 'npz', 'fileBatch', 'dl4jDataset', 'webdataset', 'mds', 'arrayRecord' or 'copy', got 'TFRecord'; did you mean tfrecord?",
    ),
    Mistake(
        "an unknown format",
        job=CSV + "  output: {uri: out, format: pickle}\n",
        said="job.yaml:6:30: spec.output.format: expected 'tfrecord', 'recordioProtobuf', 'sequenceFile', 'mapFile', 'parquet', 'arrow', 'jsonl', 'csv', 'npz', 'fileBatch', 'dl4jDataset', 'webdataset', 'mds', 'arrayRecord' or 'copy', got 'pickle'; did you mean mapFile?",
    ),
    Mistake(
        "compression beside the format",
        job=CSV + "  output: {uri: out, compression: gzip}\n",
        said="job.yaml:6:22: spec.output.compression: unknown field; it belongs one level deeper, under tfrecord, sequenceFile, mapFile, parquet, arrow, jsonl, csv, npz or others",
    ),
    Mistake(
        "two sources",
        job=HEAD + "  source: {csv: {uris: [a.csv]}, jsonl: {uris: [a.csv]}}\n" + OUT,
        said="job.yaml:5:3: spec.source: exactly one source must be set (idx, images, annotatedImages, masks, csv, csvSequences, jsonl, text, parquet, arrow, avro, orc, fixedLength, wholeFile, tfrecord, sequenceFile, webdataset, mds, dataset, fromJob, numpy, libsvm, join, sql, table, plugin), got csv, jsonl",
    ),
    Mistake(
        "an unknown dtype",
        job=CSV + "  features: [{name: x, dtype: float}]\n" + OUT,
        said="job.yaml:6:31: spec.features[0].dtype: expected 'int64', 'int32', 'int16', 'int8', 'uint8', 'float64', 'float32', 'float16', 'bool' or 'bytes', got 'float'; did you mean float64?",
    ),
    Mistake(
        "a size in MB",
        job=CSV + "  output: {uri: out, shards: {targetSize: 256MB}}\n",
        said="job.yaml:6:43: spec.output.shards.targetSize: expected bytes or a quantity such as 128Mi or 2Gi, got '256MB'",
    ),
    Mistake(
        "a size with a space",
        job=CSV + "  output: {uri: out, shards: {targetSize: 256 MiB}}\n",
        said="job.yaml:6:43: spec.output.shards.targetSize: expected bytes or a quantity such as 128Mi or 2Gi, got '256 MiB'",
    ),
    Mistake(
        "yes for shuffle",
        job=CSV + "  shuffle: 'yes'\n" + OUT,
        said="job.yaml:6:12: spec.shuffle: expected a mapping ({} for the defaults), got 'yes'",
    ),
    Mistake(
        "true for shuffle",
        job=CSV + "  shuffle: true\n" + OUT,
        said="job.yaml:6:12: spec.shuffle: expected a mapping ({} for the defaults), got True",
    ),
    Mistake(
        "a delimiter of two characters",
        job=HEAD + "  source: {csv: {uris: [a.csv], delimiter: '||'}}\n" + OUT,
        said="job.yaml:5:44: spec.source.csv.delimiter: must have at most 1 character, got '||'",
    ),
    Mistake(
        "another delimiter",
        job=HEAD + "  source: {csv: {uris: [a.csv], delimiter: ';'}}\n  labels: [{name: label}]\n" + OUT,
        said="job.yaml:6:19: The feature 'label': there is no column 'label'. The columns are 0.",
    ),
    Mistake(
        "an output within the input",
        job=HEAD + "  source: {csv: {uris: [in]}}\n  output: {uri: in/out}\n",
        files={"in/a.csv": NUMBERS},
        said="job.yaml:6:17: output.uri in/out lies in the input in, so the job would read what it writes: choose an output.uri outside of it.",
    ),
    Mistake(
        "an output that is the input",
        job=HEAD + "  source: {csv: {uris: [in]}}\n  output: {uri: in}\n",
        files={"in/a.csv": NUMBERS},
        said="job.yaml:6:17: output.uri in is the input in itself, but a job must not write to its own input: choose another output.uri.",
    ),
    Mistake(
        "an empty spec",
        job="apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: a}\nspec:\n",
        said="job.yaml:4:6: spec: has no value (in YAML, ~ and null also mean no value); expected a mapping with the field output",
    ),
    Mistake("no output", job=CSV, said="job.yaml:4:1: spec.output: is required"),
    Mistake("no source", job=HEAD + OUT, said="job.yaml:4:1: spec: set exactly one of source and script"),
    Mistake(
        "another version of the API",
        job="apiVersion: dataprep.io/v1\nkind: DataPrepJob\nmetadata: {name: a-job}\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n",
        said="job.yaml:1:13: apiVersion: expected 'dataprep.io/v1alpha1', got 'dataprep.io/v1'; did you mean dataprep.io/v1alpha1?",
    ),
    Mistake(
        "a misspelt kind",
        job="apiVersion: dataprep.io/v1alpha1\nkind: DataprepJob\nmetadata: {name: a-job}\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n",
        said="job.yaml:2:7: kind: expected 'DataPrepJob', got 'DataprepJob'; did you mean DataPrepJob?",
    ),
    Mistake(
        "another kind",
        job="apiVersion: dataprep.io/v1alpha1\nkind: Job\nmetadata: {name: a-job}\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n",
        said="job.yaml:2:7: kind: expected 'DataPrepJob', got 'Job'",
    ),
    Mistake(
        "a param without a value",
        job=CSV + "  output: {uri: '${where}'}\n",
        said="job.yaml:6:17: spec.output.uri: ${where} is not in spec.params",
    ),
    Mistake(
        "filter with the fields of others",
        job=CSV + "  transforms: [{filter: {column: lable, min: 1}}]\n" + OUT,
        said=(
            "job.yaml:6:17: spec.transforms[0].filter.where: is required\njob.yaml:6:26: spec.transforms[0].filter.column: unknown field\njob.yaml:6:41: spec.transforms[0].filter.min: unknown field"
        ),
    ),
    Mistake(
        "an unknown transform",
        job=CSV + "  transforms: [{normalise: {column: x}}]\n" + OUT,
        said="job.yaml:6:17: spec.transforms[0].normalise: unknown field",
    ),
    Mistake(
        "transforms as a mapping",
        job=CSV + "  transforms: {standardize: {column: x}}\n" + OUT,
        said="job.yaml:6:3: spec.transforms: expected a list, got a mapping",
    ),
    Mistake(
        "a feature twice",
        job=CSV + "  features: [{name: x}, {name: x}]\n" + OUT,
        said="job.yaml:4:1: spec: the feature 'x' is listed twice in features and labels",
    ),
    Mistake(
        "a feature that is the label",
        job=CSV + "  features: [{name: x}, {name: label}]\n  labels: [{name: label}]\n" + OUT,
        said="job.yaml:4:1: spec: the feature 'label' is listed twice in features and labels",
    ),
    Mistake(
        "a misspelt part of the file name",
        job=CSV + "  output: {uri: out, fileName: '{split}-{shrad}'}\n",
        said="job.yaml:6:32: output.fileName '{split}-{shrad}': unknown field {shrad} in the file name; known: {split}, {shard}, {shards}, {ext}.",
    ),
    Mistake(
        "a file name without the split",
        job=CSV + "  splits: {into: [{name: a, fraction: 0.5}, {name: b, fraction: 0.5}]}\n  output: {uri: out, fileName: data.tfrecord}\n",
        said="job.yaml:7:32: output.fileName 'data.tfrecord': the file name must contain {split} when there are several splits.",
    ),
    Mistake(
        "a split's name with a space",
        job=CSV + "  splits: {into: [{name: my split}]}\n" + OUT,
        said="job.yaml:6:26: spec.splits.into[0].name: must match the pattern ^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$, got 'my split'",
    ),
    Mistake(
        "a policy in lower case",
        job=CSV + "  onBadRecord: {policy: skip}\n" + OUT,
        said="job.yaml:6:25: spec.onBadRecord.policy: expected 'Fail', 'Skip' or 'Quarantine', got 'skip'; did you mean Skip?",
    ),
    Mistake(
        "a policy as a text",
        job=CSV + "  onBadRecord: Skip\n" + OUT,
        said="job.yaml:6:16: spec.onBadRecord: expected a mapping ({} for the defaults), got 'Skip'",
    ),
    Mistake(
        "text for true or false",
        job=HEAD + "  source: {csv: {uris: [a.csv], header: first}}\n" + OUT,
        said="job.yaml:5:41: spec.source.csv.header: expected true or false, got 'first'",
    ),
    Mistake(
        "count and records of shards",
        job=CSV + "  output: {uri: out, shards: {count: 2, records: 5}}\n",
        said="job.yaml:6:22: spec.output.shards: set only one of count, targetSize, records, got count, records",
    ),
    Mistake(
        "text for a seed",
        job=CSV + "  shuffle: {seed: abc}\n" + OUT,
        said="job.yaml:6:19: spec.shuffle.seed: expected a whole number, got 'abc'",
    ),
    Mistake(
        "a fraction for a seed",
        job=CSV + "  shuffle: {seed: 1.5}\n" + OUT,
        said="job.yaml:6:19: spec.shuffle.seed: expected a whole number, got 1.5",
    ),
    Mistake(
        "a number for a URI",
        job=HEAD + "  source: {csv: {uris: [7]}}\n" + OUT,
        said="job.yaml:5:25: spec.source.csv.uris[0]: expected text, got 7; put it in quotes",
    ),
    Mistake(
        "no URIs",
        job=HEAD + "  source: {csv: {uris: []}}\n" + OUT,
        said="job.yaml:5:18: spec.source.csv.uris: must have at least 1 item, got 0",
    ),
    Mistake(
        "an empty URI",
        job=HEAD + "  source: {csv: {uris: ['']}}\n" + OUT,
        said="job.yaml:5:25: spec.source.csv.uris[0]: must have at least 1 character, got 0",
    ),
    Mistake(
        "a field in snake case",
        job=HEAD + "  source: {csv: {uris: [a.csv], skip_lines: 1}}\n" + OUT,
        said="job.yaml:5:33: spec.source.csv.skip_lines: unknown field; did you mean skipLines?",
    ),
    Mistake(
        "a key in a URI",
        job=HEAD + "  source: {csv: {uris: ['s3://key:secret@b/a.csv']}}\n" + OUT,
        said="job.yaml:5:25: spec.source.csv.uris[0]: a URI can't contain a user, key or password: credentials come from a Secret (an entry of stores) or from the environment, got 23 characters",
    ),
)
