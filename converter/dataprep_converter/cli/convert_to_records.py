"""`convert_to_records`: a replacement for TensorFlow's MNIST script, with the same flags, for pipelines that call the script.

convert_to_records --directory hdfs://nn:9000/mnist --validation_size 5000
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from dataprep_api import names
from dataprep_api.exits import Exit
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli import commands
from dataprep_converter.cli.display import Display
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.run import run

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
SPLITS = ("train", "validation", "test")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Like TensorFlow's script, writes the splits train, validation and test, and prints `Writing <uri>` for each split."""
    parser = argparse.ArgumentParser(prog="convert_to_records", description="MNIST IDX files to TFRecord.")
    parser.add_argument("--directory", default="/tmp/data", help="folder of the TFRecord files, on any store")  # noqa: S108  # the default of TensorFlow's script
    parser.add_argument(
        "--validation_size", type=int, default=5000, help="number of images at the start of the training set that become the validation set"
    )
    parser.add_argument("--input", default="MNIST_data", help="folder of the four IDX files, with or without gzip")
    arguments = parser.parse_args(argv)
    commands.execute(argparse.Namespace(command=_convert, debug=False, **vars(arguments)))


def _convert(arguments: argparse.Namespace) -> Exit:
    access = Access()
    plain = names.join(arguments.input, FILES["train"][0])
    suffix = ".gz" if access.store(plain).stat(plain) is None else ""
    job = mnist_job(source=arguments.input, output=arguments.directory, validation=arguments.validation_size, suffix=suffix)
    for split in SPLITS:
        sys.stdout.write(f"Writing {names.join(arguments.directory, split + '.tfrecords')}\n")
    run(job, access=access, workers=os.cpu_count() or 1, display=Display(quiet=True))
    return Exit.DONE


def mnist_job(*, source: str, output: str, validation: int, suffix: str) -> DataPrepJob:
    """Returns a DataPrepJob that does the same work as TensorFlow's script."""
    subsets = [
        {"name": name, "images": names.join(source, images + suffix), "labels": names.join(source, labels + suffix)}
        for name, (images, labels) in FILES.items()
    ]
    return DataPrepJob.parse(
        {
            "apiVersion": "dataprep.io/v1alpha1",
            "kind": "DataPrepJob",
            "metadata": {"name": "convert-to-records"},
            "spec": {
                "source": {"idx": {"subsets": subsets}},
                "features": [{"name": name} for name in ("height", "width", "depth")] + [{"name": "image_raw", "columns": ["image"]}],
                "labels": [{"name": "label"}],
                "splits": {
                    "into": [
                        {"name": "train", "subset": "train"},
                        {"name": "validation", "subset": "train", "first": validation},
                        {"name": "test", "subset": "test"},
                    ]
                },
                "output": {"uri": output, "shards": {"count": 1}, "fileName": "{split}.tfrecords", "overwrite": "IfChanged"},
            },
        }
    )
