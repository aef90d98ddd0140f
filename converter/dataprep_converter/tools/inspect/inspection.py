"""Shows the contents of a finished data set (`dataprep inspect`, `dataprep ls`)."""

import itertools
import json
import math
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
from pydantic import ValidationError
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from dataprep_api import names
from dataprep_api.dataset.plan import PlanHead
from dataprep_api.dataset.report import Manifest, Success
from dataprep_api.redaction import for_display, one_line
from dataprep_converter.core.errors import NewerFormat, NotFound
from dataprep_converter.core.redaction import raw
from dataprep_converter.dataset.listing import missing_data_set
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.script_files import is_read
from dataprep_converter.dataset.sidecars.statistics import read_statistics as stored_statistics
from dataprep_converter.formats.columnar.tables_decoder import kept_values
from dataprep_converter.formats.nested.descriptions import parse_description
from dataprep_converter.formats.registry import decoder
from dataprep_converter.inputs.access import Access
from dataprep_converter.records.kept_types import time_text
from dataprep_converter.stores import Entry
from dataprep_converter.tools.inspect import html_pictures, html_report, statistics_table

_BAR = 30
_BAR_LEAST = 5
_CLASS_NAME = 24
"""Number of characters that each line reserves for the class name and the table borders."""
_SHADES = " .:-=+*#%@"
_SHOWN_VALUES = 8
_SHOWN_TEXT = 60
_PLAIN_WIDTH = 1000


def show(uri: str, access: Access, *, records: int, as_json: bool, stream: TextIO) -> None:
    """Prints the files, class histograms, statistics and first records. Raises NotFound if there is no finished data set."""
    folder, success = _find_finished(uri, access)
    manifest = folder.manifest(success)
    statistics = stored_statistics(manifest, folder)
    samples = first_records(manifest, folder, access, count=records)
    if as_json:
        document = {
            "manifest": json.loads(manifest.to_bytes()),
            "ignored": _count_ignored(folder, manifest),
            "statistics": statistics,
            "records": [_jsonable(sample) for sample in samples],
        }
        stream.write(json.dumps(document, indent=2) + "\n")
        return
    console = console_of(stream)
    console.print(_files(manifest))
    ignored = _count_ignored(folder, manifest)
    if ignored:
        console.print(
            f"{ignored:,} {'file' if ignored == 1 else 'files'} among the inputs {'was' if ignored == 1 else 'were'} ignored",
            soft_wrap=True,
        )
    if manifest.bad:
        where = f"; all of them are kept in {folder.at(names.quarantine_folder(manifest.run_id))}" if manifest.quarantine else ""
        console.print(f"{manifest.bad:,} bad records were left out{where}", soft_wrap=True)
    for label, classes in _label_names(manifest).items():
        console.print(_histogram(manifest, label, classes, width=console.width))
    if statistics is not None:
        statistics_table.show(console, statistics)
    for sample in samples:
        _print_record(console, manifest, sample)


def show_records(uri: str, access: Access, *, records: int, as_json: bool, stream: TextIO) -> None:
    """Prints only the first records. Raises NotFound if there is no finished data set."""
    folder, success = _find_finished(uri, access)
    manifest = folder.manifest(success)
    samples = first_records(manifest, folder, access, count=records)
    if as_json:
        stream.write(json.dumps([_jsonable(sample) for sample in samples], indent=2) + "\n")
        return
    console = console_of(stream)
    for number, sample in enumerate(samples):
        if number:
            console.print()
        _print_record(console, manifest, sample)


def console_of(stream: TextIO) -> Console:
    """Returns a console that prints values verbatim, because rich would interpret `[/a]` and `:x:`.

    On a terminal, lines fold at its width. Lines written to a file or pipe can have any width.
    """
    return _Console(file=raw(stream), highlight=False, markup=False, emoji=False, width=None if stream.isatty() else _PLAIN_WIDTH)


class _Console(Console):
    """Filters all text with `for_display`, and leaves rich's colours unchanged."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yields the segments, each passed through `for_display`."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(for_display(segment.text), segment.style)


def html(uri: str, access: Access, *, records: int) -> str:
    """Returns the report as an HTML page. Raises NotFound if there is no finished data set."""
    folder, success = _find_finished(uri, access)
    manifest = folder.manifest(success)
    return html_report.report(
        folder.uri,
        manifest=manifest,
        ignored=_count_ignored(folder, manifest),
        success=success,
        statistics=stored_statistics(manifest, folder),
        records=first_records(manifest, folder, access, count=records),
        sheet=html_pictures.contact_sheet(manifest, folder, access),
    )


def _find_finished(uri: str, access: Access) -> tuple[OutputFolder, Success]:
    folder = OutputFolder(uri, access)
    success = folder.success()
    if success is None:
        raise missing_data_set(uri, access)
    return folder, success


def _count_ignored(folder: OutputFolder, manifest: Manifest) -> int:
    """Returns the number of input files that the run ignored, or 0 if the run's plan can't be read."""
    path = names.plan_file(manifest.run_id)
    try:
        return folder.parse(PlanHead, path, folder.read(path) or b"").ignored
    except (ValidationError, NewerFormat):
        return 0


def first_records(manifest: Manifest, folder: OutputFolder, access: Access, *, count: int) -> list[dict[str, list[Any]]]:
    """Returns the first records of the first non-empty file, each as a mapping from feature to list of values. Decimals are strings."""
    for file in (each for each in manifest.files if count and is_read(each.file, manifest)):
        uri = folder.at(file.file)
        with access.store(uri).open(uri) as source:
            format_ = decoder(manifest)
            read = [record for _, record in itertools.islice(format_.read(source.stream()), count)]
            records = [format_.parse(record) | _decimals(record, manifest) for record in read]
        if records:
            return records
    return []


def _decimals(record: Any, manifest: Manifest) -> dict[str, list[Any]]:
    """Returns the decimal features as strings with all digits. Only table formats keep decimals."""
    kinds = {name: parse_description(described) for name, described in manifest.types.items()}
    columns = {name: kept_values([record], name) for name, kind in kinds.items() if pa.types.is_decimal(kind)}
    return {name: [f"{value:f}" for value in values.to_pylist() if value is not None] for name, values in columns.items()}


def listing(uri: str, access: Access, *, stream: TextIO) -> None:
    """Lists the visible files below a folder, or a single file, with the same columns as `hdfs dfs -ls`. Unknown values are dashes."""
    entries, is_folder = _entries(uri, access)
    if is_folder:
        stream.write(f"Found {len(entries)} items\n")
    stream.writelines(f"{one_line(line)}\n" for line in _columns(entries))


def listing_document(uri: str, access: Access) -> list[dict[str, Any]]:  # Any: JSON
    """Returns the same data as `listing`, with null instead of each dash. `modified` is in UTC."""
    entries, _ = _entries(uri, access)
    return [
        {
            "uri": entry.uri,
            "bytes": entry.size,
            "modified": details and datetime.fromtimestamp(details.modified, UTC).isoformat(timespec="seconds"),
            "mode": None if details is None or details.mode is None else f"{details.mode & 0o7777:04o}",
            "owner": details and details.owner,
            "group": details and details.group,
            "replication": details and details.replication,
        }
        for entry in entries
        for details in [entry.details]
    ]


def _entries(uri: str, access: Access) -> tuple[list[Entry], bool]:
    """Returns the visible files below a folder, or the single file at the URI, and whether the URI is a folder."""
    entries = [entry for _, entry in sorted(OutputFolder(uri, access).visible(), key=lambda each: each[0])]
    if entries:
        return entries, True
    file = access.store(uri).stat(uri)
    if file is None:
        raise NotFound(f"{uri} has no visible files.", uri=uri)
    return [file], False


def _columns(entries: Sequence[Entry]) -> Iterator[str]:
    # The widths are Hadoop's: a column is as wide as its widest value, but at least 3 for the replication and 10 for the size.
    owner_width = max(len(_owner(entry)) for entry in entries)
    group_width = max(len(_group(entry)) for entry in entries)
    size_width = max(10, *(len(str(entry.size)) for entry in entries))
    for entry in entries:
        details = entry.details
        mode = "-" if details is None or details.mode is None else stat.filemode(stat.S_IFREG | details.mode)
        replication = "-" if details is None or details.replication is None else details.replication
        modified = "-          -" if details is None else f"{datetime.fromtimestamp(details.modified, UTC).astimezone():%Y-%m-%d %H:%M}"
        yield (
            f"{mode:<10} {replication:>3} {_owner(entry):<{owner_width}} {_group(entry):<{group_width}}"
            f" {entry.size:>{size_width}} {modified:<16} {entry.uri}"
        )


def _owner(entry: Entry) -> str:
    return (entry.details and entry.details.owner) or "-"


def _group(entry: Entry) -> str:
    return (entry.details and entry.details.group) or "-"


def _files(manifest: Manifest) -> Table:
    table = Table(
        title=f"{manifest.records_out:,} records, {manifest.size:,} bytes, {manifest.format}, run {manifest.run_id}", title_justify="left"
    )
    for column in ("file", "split"):
        table.add_column(column, overflow="fold")
    for column in ("records", "bytes"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("sha256", overflow="fold")
    for file in manifest.files[:40]:
        table.add_row(one_line(file.file), file.split, f"{file.records:,}", f"{file.size:,}", file.sha256[:16] + "…")
    if len(manifest.files) > 40:
        table.add_row(f"… and {len(manifest.files) - 40} more", "", "", "", "")
    return table


def _label_names(manifest: Manifest) -> dict[str, list[str]]:
    labels = {label for split in manifest.splits for label in split.label_counts}
    return {label: manifest.labels.get(label, []) for label in sorted(labels)}


def _histogram(manifest: Manifest, label: str, names: list[str], *, width: int) -> Table:
    splits = [split for split in manifest.splits if label in split.label_counts]
    classes = sorted({name for split in splits for name in split.label_counts[label]}, key=int)
    totals = {name: sum(split.label_counts[label].get(name, 0) for split in splits) for name in classes}
    most = max(totals.values(), default=1)
    table = Table(title=one_line(label), title_justify="left")
    table.add_column("class", overflow="fold", min_width=5)
    for split in splits:
        table.add_column(split.name, justify="right", overflow="fold")
    table.add_column("all", no_wrap=True)
    # The bars fill the space that remains on the line beside the numbers and a class name of moderate length.
    numbers = sum(3 + max(len(split.name), len(f"{max(split.label_counts[label].values(), default=0):,}")) for split in splits)
    longest = max(_BAR_LEAST, min(_BAR, width - numbers - _CLASS_NAME))
    for name in classes[:50]:
        class_name = f"{name} {one_line(names[int(name)])}" if 0 <= int(name) < len(names) else name
        bar = "█" * math.ceil(longest * totals[name] / most)
        table.add_row(class_name, *(f"{split.label_counts[label].get(name, 0):,}" for split in splits), bar)
    if len(classes) > 50:
        table.add_row(f"… and {len(classes) - 50} more", *("" for _ in splits), "")
    return table


def _print_record(console: Console, manifest: Manifest, sample: dict[str, list[Any]]) -> None:
    raws = {f["name"]: f for f in manifest.features if f["raw"] and not f.get("sequence")}
    kinds = {name: parse_description(described) for name, described in manifest.types.items()}
    times = {name: kind for name, kind in kinds.items() if pa.types.is_temporal(kind)}
    for name, values in sorted(sample.items()):
        if name in raws:
            console.print(Text.assemble((one_line(name), "bold"), f": {raws[name]['dtype']}{raws[name]['shape']}"))
            console.print(picture(values[0], raws[name]["dtype"], raws[name]["shape"]), soft_wrap=True)
        else:
            time = times.get(name)
            values_shown = ", ".join(_shorten(value if time is None else time_text(value, time)) for value in values[:_SHOWN_VALUES])
            what = "steps" if any(isinstance(value, list) for value in values) else "values"
            more = f", … ({len(values)} {what})" if len(values) > _SHOWN_VALUES else ""
            console.print(Text.assemble((one_line(name), "bold"), one_line(f": {values_shown}{more}")))


def picture(content: bytes, dtype: str, shape: list[int]) -> str:
    """Draws a small 2-D uint8 tensor in ten shades of characters, with two characters per pixel.

    A 3-D tensor with a single channel is drawn like a 2-D tensor. For any other tensor, returns an empty string.
    """
    if dtype != "uint8" or len([size for size in shape if size != 1]) != 2 or max(shape) > 64:
        return ""
    pixels = np.frombuffer(content, dtype=np.uint8).reshape([size for size in shape if size != 1])
    return "\n".join("".join(_SHADES[int(value) * len(_SHADES) // 256] * 2 for value in row).rstrip() for row in pixels)


def _shorten(value: Any) -> str:
    if isinstance(value, list):
        more = ", …" if len(value) > _SHOWN_VALUES else ""
        return f"[{', '.join(_shorten(each) for each in value[:_SHOWN_VALUES])}{more}]"
    if isinstance(value, bytes):
        text = repr(value[:_SHOWN_TEXT])
        return f"{text}… ({len(value)} bytes)" if len(value) > _SHOWN_TEXT else text
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _jsonable(sample: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Converts values to JSON: bytes become Latin-1 text, and NaN and the infinities become their protobuf names."""
    return {name: [_json_value(value) for value in values] for name, values in sorted(sample.items())}


def _json_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_json_value(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
