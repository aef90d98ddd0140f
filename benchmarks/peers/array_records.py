"""Writes a tf.train.Example for each record with array_record's ArrayRecordWriter.

array_records.py table INPUT OUTPUT RECORDS
"""

import itertools
import sys
from pathlib import Path

from array_record.python.array_record_module import ArrayRecordWriter
from clocked import clocked
from tensorflow_records import held, numbers


def main(source: Path, output: Path, records: int) -> None:
    made = numbers(held(source, records))

    def work() -> int:
        out = ArrayRecordWriter(str(output / "data.array_record"), "group_size:1")
        for record in itertools.islice(made(source), records):
            out.write(record)
        out.close()
        return records

    clocked(work)


if __name__ == "__main__":
    main(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
