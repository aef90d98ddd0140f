"""Reads CSV files with pandas, according to the fields of a job's `source.csv`, for `real_tables.py`.

Argument: a JSON file with a list of {path, source}. Prints, for each file, the names in its header and the values of each column. The
columns in `texts` are text; pandas finds the types of all other columns itself. Only the words that the job lists are read as missing
values.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

ENCODINGS = {"Latin1": "latin-1", "Windows1252": "cp1252", "Utf16Le": "utf-16-le", "Utf16Be": "utf-16-be"}


def read(path: str, source: dict[str, Any], **options: Any) -> pd.DataFrame:
    return pd.read_csv(
        path,
        sep=source.get("delimiter", ","),
        skiprows=source.get("skipLines", 0),
        encoding=ENCODINGS.get(source.get("encoding", ""), "utf-8"),
        keep_default_na=False,
        index_col=False,
        low_memory=False,
        **options,
    )


def names_in(first: list[str], *, header: bool) -> list[str]:
    numbers = [str(number) for number in range(len(first))]
    names = [name or number for name, number in zip(first, numbers, strict=True)] if header else numbers
    return [
        f"unnamed_{number}" if header and not first[int(number)] and number in first else name
        for number, name in zip(numbers, names, strict=True)
    ]


def columns(path: str, source: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    first = read(path, source, header=None, nrows=1, dtype=str).iloc[0].tolist()
    header = source.get("header", False)
    names = [column["name"] for column in source["columns"]] if "columns" in source else names_in(first, header=header)
    words = source.get("nullWordsOf", {})
    numbers = {name: [*words.get(name, []), *([] if name in texts else [""])] for name in names}
    table = read(
        path,
        source,
        header=0 if header else None,
        names=names,
        dtype={name: str for name in names if name in texts},
        na_values={name: each for name, each in numbers.items() if each},
        dtype_backend="numpy_nullable",
        float_precision="round_trip",
    )
    return {name: [None if pd.isna(value) else value for value in table[name].tolist()] for name in names}


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = [columns(each["path"], each["source"], each["texts"]) for each in asked]
    sys.stdout.write(json.dumps({"version": pd.__version__, "tables": found}))
