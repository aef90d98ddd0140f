"""Writes data of other libraries with `dataprep_io.write`. Input: a JSON file of {paths, folder, library}.

`paths` are the folders of the code. Returns, for each data set, its class names, and the library's own rows of each split.
"""

import datetime as dt
import decimal
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

wanted = json.loads(Path(sys.argv[1]).read_text())
sys.path += wanted["paths"]

import numpy as np  # noqa: E402 - the path is set above

import dataprep_io as dp  # noqa: E402

FOLDER = Path(wanted["folder"])
MANY = 3000
"""More records than `write` requests from a library at a time."""

Rows = dict[str, list[dict[str, Any]]]
said: dict[str, Any] = {"sets": {}, "refusals": {}}


def plain(value: Any) -> Any:
    """Returns a value as it appears in JSON: bytes as hexadecimal digits, arrays as flat lists."""
    if hasattr(value, "detach"):
        value = value.detach().float() if "bfloat16" in str(value.dtype) else value.detach()
    if hasattr(value, "__array__"):
        values = np.asarray(value)
        return values.ravel().tolist() if values.ndim else values.item()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return list(map(plain, value)) if isinstance(value, list | tuple) else value


def save(name: str, data: Any, rows: Rows, **options: Any) -> None:
    """Writes data. Records the result, and the library's own rows."""
    result = dp.write(data, FOLDER / name, **options)
    in_json = {split: [{column: plain(value) for column, value in row.items()} for row in each] for split, each in rows.items()}
    said["sets"][name] = {"classes": dict(result.classes), "splits": dict(result.splits), "rows": in_json}


def refuse(name: str, data: Any, **options: Any) -> None:
    """Records the error of a call that must fail."""
    try:
        dp.write(data, FOLDER / name, **options)
    except (dp.Error, TypeError) as exc:
        said["refusals"][name] = f"{type(exc).__name__}: {exc}"


# --- Polars -------------------------------------------------------------------------------------------------------


def with_polars() -> None:
    import polars as pl

    none_at_end: dict[str, Any] = {
        "small": pl.Series([1, -2, None], dtype=pl.Int8),
        "unsigned": pl.Series([1, 2**31, None], dtype=pl.UInt32),
        "half": [0.5, -1.25, None],
        "float": pl.Series([0.5, -1.25, None], dtype=pl.Float32),
        "text": ["a", "ü", None],
        "bytes": [b"x", b"\xff\x00", None],
        "flag": [True, False, None],
        "day": [dt.date(2020, 1, 2), dt.date(1969, 12, 31), None],
        "at": [dt.datetime(2020, 1, 2, 3, 4, 5, 6, dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC), None],
        "span": [dt.timedelta(seconds=3), dt.timedelta(days=-1), None],
        "time": [dt.time(1, 2, 3), dt.time(0), None],
        "list": [[1, 2], [], None],
        "words": [["a", "b"], ["ü"], None],
        "vector": pl.Series([[1, 2], [3, 4], None], dtype=pl.Array(pl.Int16, 2)),
        "struct": [{"x": 1, "y": "ä"}, {"x": 2, "y": None}, None],
    }
    frame = pl.DataFrame(none_at_end)
    rows = frame.with_columns(pl.col("day", "at", "span", "time").to_physical()).rows(named=True)
    save("types", frame, {"train": rows}, format="parquet")
    save("lazy", frame.lazy().filter(pl.col("small") > 0).select("text", "small"), {"train": [{"text": "a", "small": 1}]})
    save("series", {name: frame[name] for name in ("text", "half")}, {"train": frame.select("text", "half").rows(named=True)})

    exact = pl.DataFrame({"exact": [decimal.Decimal("1.25"), decimal.Decimal("-3"), None]})
    save("decimals", exact, {"train": exact.cast(pl.Float64).rows(named=True)}, format="parquet")

    kinds = pl.Enum(["p", "q", "unused"])
    texts = pl.DataFrame({"kind": ["q", "p", None], "level": ["q", "p", None]})
    categories = texts.cast({"kind": pl.Categorical, "level": kinds})
    save("categories", categories, {"train": texts.rows(named=True)})
    save("classes", categories, {"train": texts.rows(named=True)}, classes=["kind", "level"])
    chunks = pl.concat([categories, pl.DataFrame({"kind": ["new"], "level": ["unused"]}).cast(categories.schema)], rechunk=False)  # type: ignore[arg-type]  # a Schema is a mapping
    save("chunks", chunks, {"train": [*texts.rows(named=True), {"kind": "new", "level": "unused"}]}, classes=["kind", "level"])
    parts = pl.DataFrame({"n": list(range(10)), "part": pl.Series(["train", "test"] * 5, dtype=pl.Categorical)})
    numbers = {"train": [{"n": n} for n in range(0, 10, 2)], "test": [{"n": n} for n in range(1, 10, 2)]}
    save("parts", parts, numbers, split_column="part")
    save("tables", {split: parts.filter(pl.col("part") == split).drop("part") for split in numbers}, numbers)

    images = np.arange(MANY * 6, dtype=np.float32).reshape(MANY, 2, 3)
    save("tensors", pl.DataFrame({"image": images}), {"train": [{"image": image} for image in images]}, shard_records=1000)

    refuse("objects", pl.DataFrame({"thing": pl.Series([object()], dtype=pl.Object)}))
    refuse("huge", pl.DataFrame({"huge": pl.Series([1], dtype=pl.Int128)}))
    said["versions"] = {"polars": version("polars")}


# --- Hugging Face -------------------------------------------------------------------------------------------------


def with_datasets() -> None:
    import datasets
    from PIL import Image

    def picture(red: int) -> Any:
        return Image.new("RGB", (3, 2), (red, 8, 7))

    def content(red: int) -> bytes:
        with io.BytesIO() as file:
            picture(red).save(file, "PNG")
            return file.getvalue()

    with tempfile.TemporaryDirectory() as files:
        path = Path(files) / "a.png"
        path.write_bytes(content(1))
        columns = {
            "image": [picture(9), str(path), None, {"bytes": content(2), "path": None}],
            "label": [0, 1, None, -1],
            "text": ["a", "ü", None, ""],
            "pixels": [np.full((2, 2), n, np.uint8) for n in range(4)],
            "list": [[0.5], [], [1.5, 2.5], [3.5]],
        }
        features = datasets.Features(
            {
                "image": datasets.Image(),
                "label": datasets.ClassLabel(names=["cat", "dog"]),
                "text": datasets.Value("string"),
                "pixels": datasets.Array2D((2, 2), "uint8"),
                "list": datasets.List(datasets.Value("float32")),
            }
        )
        data = datasets.Dataset.from_dict(columns, features=features)
        rows = [dict(row) for row in data.remove_columns(["image", "pixels"])]
        for row, image, pixels in zip(rows, [content(9), content(1), None, content(2)], columns["pixels"], strict=True):
            row |= {"image": image, "pixels": pixels}
        save("images", data, {"train": rows}, format="parquet")
        save("iterable", data.to_iterable_dataset(), {"train": rows}, format="parquet")
        save("shuffled", data.select([3, 0]), {"train": [rows[3], rows[0]]}, format="parquet")
        labelled = data.select_columns(["label", "text"])
        few = [{"label": row["label"], "text": row["text"]} for row in rows]
        save("dict", datasets.DatasetDict(train=labelled, test=labelled.select([1])), {"train": few, "test": few[1:2]})
        streams = datasets.IterableDatasetDict(train=labelled.to_iterable_dataset(), test=labelled.select([1]).to_iterable_dataset())
        save("streams", streams, {"train": few, "test": few[1:2]})
        save("formatted", labelled.with_format("numpy", columns=["label"]), {"train": [{"label": row["label"]} for row in few]})
    transformed = labelled.with_transform(lambda batch: {"length": [len(text or "") for text in batch["text"]]})
    save("transformed", transformed, {"train": [{"length": len(row["text"] or "")} for row in few]})
    mapped = labelled.to_iterable_dataset().map(lambda row: {"text": row["text"], "more": 1})
    save("mapped", mapped, {"train": [{**row, "more": 1} for row in few]})

    def generated() -> Iterator[dict[str, int]]:
        yield from ({"n": n} for n in range(MANY))

    save("generated", datasets.IterableDataset.from_generator(generated), {"train": list(generated())}, shard_records=700)
    tensors = [np.full((2, 3), n, np.int32) for n in range(MANY)]
    many = datasets.Dataset.from_dict({"x": tensors}, features=datasets.Features({"x": datasets.Array2D((2, 3), "int32")}))
    save("tensors", many, {"train": [{"x": tensor} for tensor in tensors]})

    refuse("names", labelled, classes={"label": ["dog", "cat"]})
    other = labelled.cast_column("label", datasets.ClassLabel(names=["a", "b"]))
    refuse("splits", datasets.DatasetDict(train=labelled, test=other))
    refuse("missing", datasets.Dataset.from_dict({"image": ["nowhere.png"]}).cast_column("image", datasets.Image()))
    refuse("empty", datasets.Dataset.from_dict({"n": []}))
    said["versions"] = {"datasets": version("datasets")}


# --- PyTorch ------------------------------------------------------------------------------------------------------


def with_torch() -> None:
    import torch
    from torch.utils import data as sets

    class Squares(sets.Dataset[dict[str, Any]]):  # type: ignore[misc]  # torch is not installed here
        """Samples with values of many types."""

        def __len__(self) -> int:
            return 5

        def __getitem__(self, number: int) -> dict[str, Any]:
            if number >= len(self):
                raise IndexError(number)
            return {
                "n": number,
                "graph": torch.full((2,), number / 2, requires_grad=True),
                "half": torch.tensor([number / 4, 1], dtype=torch.float16),
                "brain": torch.tensor([number / 4, 1], dtype=torch.bfloat16),
                "scalar": torch.tensor(number * 1.5),
                "flag": torch.tensor(number % 2 == 0),
                "turned": torch.arange(6).reshape(2, 3).T + number,
                "free": torch.ones(number % 3),
                "text": f"nümber {number}",
                "bytes": bytes([number]),
                "array": np.full((2, 2), number, np.int16),
            }

    class Stream(sets.IterableDataset[dict[str, Any]]):  # type: ignore[misc]  # as above
        """Samples that can only be iterated over."""

        def __iter__(self) -> Iterator[dict[str, Any]]:
            yield from ({"n": torch.tensor(n)} for n in range(MANY))

    class Endless(sets.Dataset[dict[str, int]]):  # type: ignore[misc]  # as above
        """A data set without a length."""

        def __getitem__(self, number: int) -> dict[str, int]:
            return {"n": number}

    samples = Squares()
    rows = [samples[number] for number in range(5)]
    for format_ in ("tfrecord", "parquet", "webdataset"):
        save(f"map-{format_}", samples, {"train": rows}, format=format_)
    numbers = [{"n": n} for n in range(MANY)]
    save("stream", Stream(), {"train": numbers}, shard_records=999, workers=2)
    save("chain", sets.ChainDataset([Stream(), Stream()]), {"train": [*numbers, *numbers]})

    images, labels = torch.arange(24, dtype=torch.uint8).reshape(6, 2, 2), torch.tensor([0, 1, 0, 1, 1, 0])
    pairs = sets.TensorDataset(images, labels)
    named = {"columns": ["image", "label"], "classes": {"label": ["cat", "dog"]}}
    each = [{"image": image, "label": label} for image, label in pairs]
    save("pairs", pairs, {"train": each}, **named)
    save("subset", sets.Subset(pairs, [5, 1]), {"train": [each[5], each[1]]}, **named)
    save("concatenated", sets.ConcatDataset([pairs, pairs]), {"train": [*each, *each]}, **named)
    save("stacked", sets.StackDataset(image=images, label=labels), {"train": each})
    save("tensors", {"image": images, "label": labels}, {"train": each})
    train, test = sets.random_split(pairs, [4, 2], generator=torch.Generator().manual_seed(1))
    split = {"train": [each[n] for n in train.indices], "test": [each[n] for n in test.indices]}
    save("splits", {"train": train, "test": test}, split, **named)

    refuse("loader", sets.DataLoader(pairs, batch_size=2), columns=["image", "label"])
    refuse("tensor", images)
    refuse("length", Endless())
    refuse("names", pairs)
    refuse("sparse", {"x": torch.eye(3).to_sparse()})
    said["versions"] = {"torch": version("torch")}


WITH: dict[str, Callable[[], None]] = {"polars": with_polars, "datasets": with_datasets, "torch": with_torch}

if __name__ == "__main__":
    WITH[wanted["library"]]()
    json.dump(said, sys.stdout)
