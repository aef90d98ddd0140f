"""Mistakes on the command line: the wrong file, command or option."""

from collections.abc import Sequence
from typing import Final

from tests.converter.cli.mistakes.table import NUMBERS, Mistake

MISTAKES: Final[Sequence[Mistake]] = (
    Mistake(
        "run of a CSV file",
        command=["run", "a.csv"],
        said="a.csv: expected a mapping with apiVersion, kind, metadata and spec, got str; if it is data, run dataprep infer a.csv",
    ),
    Mistake(
        "run of a folder",
        files={"in/a.csv": NUMBERS},
        command=["run", "in"],
        said="in is a folder; expected a job's YAML file (dataprep infer in proposes a job for data)",
    ),
    Mistake(
        "run of a URI",
        command=["run", "s3://x/y"],
        said="can't read s3://x/y: No such file or directory; a job must be a local file (dataprep infer s3://x/y proposes a job for data)",
    ),
    Mistake("infer of a missing file", command=["infer", "nothing.csv"], code=5, said="nothing.csv names no file."),
    Mistake(
        "infer of hidden files",
        files={"in/_x.csv": NUMBERS},
        command=["infer", "in"],
        code=5,
        said="in names no file except hidden ones (1): a file or folder whose name begins with _ or a dot is read only if the source names it.",
    ),
    Mistake("infer of an empty folder", files={"in/x/": None}, command=["infer", "in"], code=5, said="in names no file."),
    Mistake(
        "verify of raw data",
        files={"in/a.csv": NUMBERS},
        command=["verify", "in"],
        code=5,
        said="in has no _SUCCESS: there is no finished data set. For raw data, run dataprep infer.",
    ),
    Mistake(
        "verify of a job",
        files={
            "job.yaml": "apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: a-job}\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n"
        },
        command=["verify", "job.yaml"],
        code=5,
        said="job.yaml has no _SUCCESS: there is no finished data set. For raw data, run dataprep infer.",
    ),
    Mistake(
        "inspect of a picture",
        files={"in/a.png": "\x89PNG"},
        command=["inspect", "in"],
        said="in/a.png is data for the source images, whose records aren't shown: see dataprep infer. Only finished data sets and files in these formats can be shown: Parquet, Arrow, TFRecord, WebDataset, MDS, JSON and CSV.",
    ),
    Mistake(
        "inspect of a missing folder",
        command=["inspect", "in"],
        code=5,
        said="in doesn't exist: there is no such file, and no file below it ({here} has no in).",
    ),
    Mistake(
        "head of a misspelt file",
        files={"numbers.csv": NUMBERS},
        command=["head", "number.csv"],
        code=5,
        said="number.csv doesn't exist: there is no such file, and no file below it ({here} has no number.csv; did you mean numbers.csv?).",
    ),
    Mistake(
        "head of an empty folder",
        files={"in/x/": None},
        command=["head", "in"],
        code=5,
        said="in doesn't exist: there is no such file, and no file below it.",
    ),
    Mistake(
        "verify of a missing folder",
        command=["verify", "in"],
        code=5,
        said="in doesn't exist: there is no such file, and no file below it ({here} has no in).",
    ),
    Mistake("ls of a missing folder", command=["ls", "in"], code=5, said="in has no visible files."),
    Mistake("a misspelt command", command=["rnu", "job.yaml"], said="there is no command 'rnu'; did you mean run? (see dataprep --help)"),
    Mistake(
        "an option of another command",
        files={
            "job.yaml": "apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: a-job}\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n"
        },
        command=["run", "job.yaml", "--output", "x"],
        said="dataprep run: error: unknown arguments: --output x (see dataprep run --help)",
    ),
    Mistake(
        "two jobs",
        files={
            "job.yaml": "apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: a-job}\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n"
        },
        command=["run", "job.yaml", "job.yaml"],
        said="dataprep run: error: unknown arguments: job.yaml (see dataprep run --help)",
    ),
    Mistake(
        "convert without a format",
        command=["convert", "a", "b"],
        said="dataprep convert: error: the following arguments are required: --format (see dataprep convert --help)",
    ),
    Mistake(
        "convert to an unknown format",
        command=["convert", "a", "b", "--format", "tfrecords"],
        code=5,
        said="a doesn't exist: there is no such file, and no file below it ({here} has no a).",
    ),
    Mistake(
        "convert of raw data",
        files={"a/b.csv": NUMBERS},
        command=["convert", "a", "b", "--format", "tfrecord"],
        code=5,
        said="a has no _SUCCESS: there is no finished data set. For raw data, run dataprep infer.",
    ),
    Mistake(
        "repair of raw data",
        files={"a/b.csv": NUMBERS},
        command=["repair", "a"],
        code=5,
        said="a holds no files of a dataprep run: there is no data set to repair.",
    ),
    Mistake(
        "copy of a missing folder", command=["copy", "a", "b"], code=5, said="a doesn't exist: there is no such file, and no file below it."
    ),
    Mistake(
        "infer into a missing folder",
        command=["infer", "a.csv", "--output", "no/job.yaml"],
        said="--output: can't write no/job.yaml: No such file or directory",
    ),
    Mistake(
        "run of a Parquet file",
        files={"a.parquet": b"PAR1\xff\xfe"},
        command=["run", "a.parquet"],
        said="a.parquet isn't text; expected a job's YAML file (dataprep infer a.parquet proposes a job for data)",
    ),
    Mistake("run without a job", command=["run"], said="which job? Give its YAML file"),
    Mistake("run of a missing file", command=["run", "jb.yaml"], said="can't read jb.yaml: No such file or directory"),
    Mistake(
        "a missing profile",
        files={
            "job.yaml": "apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: a-job}\nspec:\n  source: {csv: {uris: [a.csv], header: true}}\n  output: {uri: out}\n"
        },
        command=["run", "job.yaml", "--profile", "p.yaml"],
        said="can't read p.yaml: No such file or directory",
    ),
    Mistake(
        "copy into itself",
        files={"in/a.csv": NUMBERS},
        command=["copy", "in", "in"],
        said="output.uri in is the input in itself, but a job must not write to its own input: choose another output.uri.",
    ),
    Mistake(
        "text for a number of records",
        command=["inspect", "in", "--records", "few"],
        said="dataprep inspect: error: argument --records: expected a whole number of at least 0, got 'few' (see dataprep inspect --help)",
    ),
    Mistake(
        "two forms at once",
        command=["inspect", "in", "--json", "--html", "x"],
        said="dataprep inspect: error: argument --html: not allowed with argument --json (see dataprep inspect --help)",
    ),
)
