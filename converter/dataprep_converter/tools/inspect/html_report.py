"""The HTML report of a finished data set: a single file without scripts that makes no network requests.

The function `text` escapes everything that comes from the data (names, classes, values). As a second line of defence, the page's content
security policy forbids scripts and requests.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files as resources
from typing import Any, Final

from dataprep_api.dataset.report import Manifest, Success
from dataprep_converter.tools.inspect import html_charts as charts
from dataprep_converter.tools.inspect.html_pictures import ContactSheet
from dataprep_converter.tools.inspect.html_text import text

_POLICY: Final = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_CLASSES: Final = 60
_FEATURES: Final = 200
_FILES: Final = 200
_VALUES: Final = 8
_TOP: Final = 8
_SHOWN_TEXT: Final = 80
_FREQUENT: Final = 0.05
_SEEN: Final = 40
_COLORS: Final = 6

Document = Mapping[str, Any]


def report(
    uri: str,
    *,
    manifest: Manifest,
    ignored: int,
    success: Success,
    statistics: Document | None,
    records: Sequence[Mapping[str, Any]],
    sheet: ContactSheet | None,
) -> str:
    """Returns the complete page. `statistics` is the parsed `statistics.json`, or None for a data set without this file."""
    title = uri.rstrip("/").rpartition("/")[2] or uri
    parts = [
        *_head(uri, title, manifest, ignored),
        *_warnings(statistics, manifest),
        *_splits(manifest),
        *_balance(statistics),
        *(_contact_sheet(sheet, manifest) if sheet is not None and sheet.groups else ()),
        *_features(manifest, statistics),
        *_records(manifest, records),
        *_files(manifest),
        *_provenance(manifest, success),
    ]
    style = resources("dataprep_converter.tools.inspect").joinpath("html_report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{text(title)}: data set report</title><style>{style}</style></head><body><main>\n"
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


# --- sections ---------------------------------------------------------------------------------------------------------


def _head(uri: str, title: str, manifest: Manifest, ignored: int) -> Iterator[str]:
    compression = f" · {text(manifest.compression)}" if manifest.compression not in ("none", "None", "") else ""
    yield f'<header><p class="kicker">data set report</p><h1>{text(title)}</h1><p class="uri">{text(uri)}</p></header>'
    tiles = [
        (f"{manifest.records_out:,}", "records"),
        (size(manifest.size), f"{text(manifest.format)}{compression}"),
        (f"{len(manifest.files):,}", "files" if len(manifest.files) != 1 else "file"),
        (f"{len(manifest.features):,}", "features" if len(manifest.features) != 1 else "feature"),
    ]
    bad, filtered, added = (manifest.bad, "bad records left out"), (manifest.filtered, "filtered out"), (manifest.added, "added")
    for count, what in (bad, filtered, added, (ignored, "input files ignored")):
        tiles += [(f"{count:,}", what)] if count else []
    yield '<div class="tiles">' + "".join(f"<div><b>{value}</b><span>{what}</span></div>" for value, what in tiles) + "</div>"


def _warnings(statistics: Document | None, manifest: Manifest) -> Iterator[str]:
    if statistics is None:
        yield '<section class="notice"><p>This data set has no statistics: it was made by an older version of dataprep.</p></section>'
        return
    warnings = statistics["warnings"]
    if warnings:
        items = "".join(f"<li>{text(warning)}</li>" for warning in warnings)
        yield f'<section class="notice warn"><h2>Splits differ</h2><ul>{items}</ul></section>'
    elif len([split for split in manifest.splits if split.records]) > 1:
        yield '<section class="notice good"><p>The splits have the same classes, ranges and distributions, as far as their sizes allow a comparison.</p></section>'


def _splits(manifest: Manifest) -> Iterator[str]:
    total = max(1, sum(split.records for split in manifest.splits))
    rows = "".join(
        f'<tr><th scope="row"><i class="dot c{number % _COLORS}"></i>{text(split.name)}</th><td>{split.records:,}</td>'
        f"<td>{split.records / total:.1%}</td><td>{size(split.size)}</td><td>{split.shards:,}</td></tr>"
        for number, split in enumerate(manifest.splits)
    )
    yield (
        f"<section><h2>Splits</h2>{charts.stacked([(split.name, split.records) for split in manifest.splits])}"
        '<table><thead><tr><th scope="col">split</th><th scope="col">records</th><th scope="col">share</th><th scope="col">size</th>'
        f'<th scope="col">files</th></tr></thead><tbody>{rows}</tbody></table></section>'
    )


def _balance(statistics: Document | None) -> Iterator[str]:
    if statistics is None:
        return
    splits = statistics["splits"]
    for label in sorted({label for split in splits.values() for label in split["classes"]}):
        by_split = {name: {each["class"]: each for each in split["classes"].get(label, [])} for name, split in splits.items()}
        classes = list({key: each for split in by_split.values() for key, each in split.items()}.values())
        # If there are many classes, only the most frequent ones are shown, ordered by class number.
        totals = {each["class"]: sum(split.get(each["class"], {}).get("count", 0) for split in by_split.values()) for each in classes}
        largest = set(sorted(totals, key=lambda key: -totals[key])[:_CLASSES])
        shown_classes = [each for each in classes if each["class"] in largest]
        most = max((each["share"] for split in by_split.values() for each in split.values()), default=1.0) or 1.0
        rows = "".join(_class_row(each, by_split, most=most) for each in shown_classes)
        more = f'<p class="note">and {len(classes) - len(shown_classes):,} rarer classes</p>' if len(classes) > len(shown_classes) else ""
        heads = "".join(
            f'<th scope="col" class="left"><i class="dot c{number % _COLORS}"></i>{text(name)}</th>' for number, name in enumerate(by_split)
        )
        yield (
            f"<section><h2>Classes of <code>{text(label)}</code> <small>{len(classes):,}</small></h2>"
            f'<table class="balance"><thead><tr><th scope="col">class</th>{heads}</tr></thead><tbody>{rows}</tbody></table>{more}</section>'
        )


def _class_row(class_: Mapping[str, Any], by_split: Mapping[str, Mapping[Any, Mapping[str, Any]]], *, most: float) -> str:
    cells: list[str] = []
    for number, (name, classes) in enumerate(by_split.items()):
        count, share = classes.get(class_["class"], {}).get("count", 0), classes.get(class_["class"], {}).get("share", 0)
        bar = charts.bar(share / most, color=number % _COLORS, title=f"{name}: {count:,} ({share:.2%})")
        absent = ' class="absent"' if not count else ""
        cells.append(f"<td{absent}>{bar}<span>{count:,}</span><small>{share:.1%}</small></td>")
    return f'<tr><th scope="row">{_class(class_)}</th>{"".join(cells)}</tr>'


def _class(class_: Mapping[str, Any]) -> str:
    if "name" in class_:
        return f'<span class="number">{text(class_["class"])}</span> {text(_shorten(class_["name"]))}'
    return text(_shorten(str(class_["class"])))


def _contact_sheet(sheet: ContactSheet, manifest: Manifest) -> Iterator[str]:
    names = manifest.labels.get(sheet.label or "", [])
    small = ' class="pixels"' if sheet.is_small else ""
    rows: list[str] = []
    for group in sorted(sheet.groups, key=lambda each: (each is None, each if isinstance(each, int) else 0)):
        images = "".join(f'<img{small} src="{escape(uri, quote=True)}" alt="">' for uri in sheet.groups[group])
        class_ = {"class": group} | ({"name": names[group]} if isinstance(group, int) and 0 <= group < len(names) else {})
        caption = f"<figcaption>{_class(class_)}</figcaption>" if group is not None else ""
        rows.append(f"<figure>{caption}<div>{images}</div></figure>")
    skipped = f" {sheet.skipped:,} images could not be shown." if sheet.skipped else ""
    yield (
        f'<section><h2>Images of <code>{text(sheet.feature)}</code></h2><div class="sheet">{"".join(rows)}</div>'
        f'<p class="note">From the first records of {sheet.files} file{"s" * (sheet.files != 1)}.{skipped}</p></section>'
    )


def _features(manifest: Manifest, statistics: Document | None) -> Iterator[str]:
    yield f"<section><h2>Features <small>{len(manifest.features):,}</small></h2>"
    if statistics is not None and not any(split["features"] for split in statistics["splits"].values()):
        yield '<p class="note">The job asked for class counts only.</p>'
    yield '<div class="cards">'
    for feature in manifest.features[:_FEATURES]:
        by_split = {
            name: split["features"][feature["name"]]
            for name, split in (statistics["splits"].items() if statistics is not None else ())
            if feature["name"] in split["features"]
        }
        yield _card(feature, by_split)
    yield "</div>"
    if len(manifest.features) > _FEATURES:
        yield f'<p class="note">and {len(manifest.features) - _FEATURES:,} more features, in statistics.json</p>'
    yield "</section>"


def _card(feature: Mapping[str, Any], by_split: Mapping[str, Mapping[str, Any]]) -> str:
    shape = ", ".join("?" if each < 0 else str(each) for each in feature["shape"])
    badges = [
        badge for badge, is_set in (("label", feature["label"]), ("sequence", feature["sequence"]), ("raw", feature["raw"])) if is_set
    ]
    kind = f"{text(feature['dtype'])}{f' [{shape}]' if shape else ''}"
    head = f"<h3>{text(feature['name'])}</h3><p class='kind'>{kind}{''.join(f' <em>{badge}</em>' for badge in badges)}</p>"
    blocks: list[str] = []
    if any("histogram" in each for each in by_split.values()):
        blocks.append(_numbers({name: each for name, each in by_split.items() if "histogram" in each}, feature, what="values"))
    for key, what in (("lengths", "bytes"), ("sizes", "values in a record")):
        if any(key in each for each in by_split.values()):
            blocks.append(_numbers({name: each[key] | {"count": each["count"], "missing": each["missing"]} for name, each in by_split.items() if key in each}, feature, what=what))  # fmt: skip
    if any(each["missing"] for each in by_split.values()):
        blocks.append(_nulls(by_split))
    if _is_worth_a_list(by_split, feature):
        blocks.append(_frequent_values(by_split, feature))
    notes = _notes(by_split)
    return f'<article class="card">{head}{"".join(blocks)}{notes}</article>'


def _is_worth_a_list(by_split: Mapping[str, Mapping[str, Any]], feature: Mapping[str, Any]) -> bool:
    """Whether to list frequent values: yes for repeated strings, and for frequent numbers that the histogram doesn't show individually."""
    first = next((each for each in by_split.values() if each.get("top")), None)
    if first is None or first["top"][0]["count"] < 2:
        return False
    is_frequent = first["top"][0]["count"] * first["sampledEvery"] > _FREQUENT * first["values"]
    return feature["dtype"] == "bytes" or (is_frequent and (first["different"] is None or first["different"] > _SEEN))


def _numbers(by_split: Mapping[str, Mapping[str, Any]], feature: Mapping[str, Any], *, what: str) -> str:
    is_whole = what != "values" or not feature["dtype"].startswith("float")
    on = charts.axis(list(by_split.values()), is_whole=is_whole)
    rows: list[str] = []
    for number, (name, each) in enumerate(by_split.items()):
        cells = [each["min"], each["quantiles"].get("0.5"), each["mean"], each["deviation"], each["max"]]
        rows.append(
            f'<tr><th scope="row"><i class="dot c{number % _COLORS}"></i>{text(name)}</th>'
            + "".join(f'<td title="{charts.short(value)}">{charts.brief(value)}</td>' for value in cells)
            + "</tr>"
        )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("min", "median", "mean", "dev.", "max"))
    table = f'<table class="small"><thead><tr><th scope="col" class="what">{what}</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    is_constant = len({value for each in by_split.values() for value in (each["min"], each["max"]) if value is not None}) < 2
    if on is None or is_constant:
        return table
    histograms = "".join(
        charts.histogram(charts.binned(each["histogram"], on), on, color=number % _COLORS, name=f"{feature['name']} in {name}")
        for number, (name, each) in enumerate(by_split.items())
        if each["histogram"]
    )
    return f'<div class="plot">{histograms}{charts.scale(on)}</div>{table}'


def _nulls(by_split: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the share of nulls in each split."""
    rows: list[str] = []
    for number, (name, each) in enumerate(by_split.items()):
        share = each["missing"] / max(1, each["count"] + each["missing"])
        bar = charts.bar(share, color=number % _COLORS, title=f"{each['missing']:,}")
        rows.append(f'<tr><th scope="row">{text(name)}</th><td>{bar}<small>{charts.percent(share)}</small></td></tr>')
    title = '<tr><th scope="col" colspan="2">share of nulls</th></tr>'
    return f'<table class="top"><thead>{title}</thead><tbody>{"".join(rows)}</tbody></table>'


def _frequent_values(by_split: Mapping[str, Mapping[str, Any]], feature: Mapping[str, Any]) -> str:
    """Returns frequent values and their shares, from the first split that lists any."""
    name, first = next((name, each) for name, each in by_split.items() if each.get("top"))
    total = max(1, first["values"] / first["sampledEvery"])
    rows: list[str] = []
    most = max(each["count"] for each in first["top"]) / total
    for each in first["top"][:_TOP]:
        share = each["count"] / total
        bar = charts.bar(min(1.0, share / most), color=0, title=f"{each['count']:,}")
        value = text(_shorten(str(each["value"]), 28)) or '<span class="note">empty</span>'
        rows.append(f'<tr><th scope="row">{value}</th><td>{bar}<small>{share:.1%}</small></td></tr>')
    many = "most frequent" if first["different"] is None else f"{first['different']:,} different" if first["different"] > 1 else "only one"
    what = "text" if feature["dtype"] == "bytes" else "value"
    where = f" in {text(name)}" if len(by_split) > 1 else ""
    title = f"{many} {what}{'s' * (first['different'] != 1)}{where}"
    return f'<table class="top"><thead><tr><th scope="col" colspan="2">{title}</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _notes(by_split: Mapping[str, Mapping[str, Any]]) -> str:
    notes: list[str] = []
    for name, each in by_split.items():
        for key, what in (("nan", "NaN"), ("infinite", "infinite")):
            if each.get(key):
                notes.append(f"{text(name)}: {each[key]:,} {what}")
    if by_split and all(each.get("mostlyDifferent") for each in by_split.values()):
        notes.append("values mostly differ")
    thinned = max((each["sampledEvery"] for each in by_split.values()), default=1)
    if thinned > 1:
        notes.append(f"mean, deviation and histogram of every {thinned}th record")
    return f'<p class="note">{"; ".join(notes)}</p>' if notes else ""


def _records(manifest: Manifest, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not records:
        return
    heads = "".join(f'<th scope="col" class="left">record {number}</th>' for number in range(len(records)))
    features = [feature["name"] for feature in manifest.features]
    more = sorted({name for record in records for name in record} - set(features))
    rows = "".join(
        f'<tr><th scope="row"><code>{text(name)}</code></th>'
        + "".join(f"<td>{_value(record.get(name))}</td>" for record in records)
        + "</tr>"
        for name in [*features, *more][:_FEATURES]
        if any(name in record for record in records)
    )
    yield (
        '<section><h2>First records</h2><div class="scroll"><table class="records"><thead><tr><th scope="col">feature</th>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _value(values: Any) -> str:
    if values is None:
        return '<span class="note">none</span>'
    items = values if isinstance(values, list) else [values]
    more = f' <span class="note">… {len(items):,} values</span>' if len(items) > _VALUES else ""
    return ", ".join(_one_value(value) for value in items[:_VALUES]) + more


def _one_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{_value(value)}]"
    if isinstance(value, bytes):
        try:
            decoded = value.decode()
        except UnicodeDecodeError:
            decoded = ""
        if not decoded.isprintable() or (value and not decoded):
            return f'<span class="note">{len(value):,} bytes</span>'
        return f"“{text(_shorten(decoded))}”"
    if isinstance(value, float):
        return text(f"{value:.6g}")
    return text(_shorten(str(value)))


def _files(manifest: Manifest) -> Iterator[str]:
    rows = "".join(
        f'<tr><th scope="row"><code>{text(file.file)}</code></th><td>{text(file.split)}</td><td>{file.records:,}</td><td>{file.size:,}</td>'
        f"<td class='hash'>{text(file.sha256)}</td></tr>"
        for file in manifest.files[:_FILES]
    )
    more = f'<p class="note">and {len(manifest.files) - _FILES:,} more files, in the manifest</p>' if len(manifest.files) > _FILES else ""
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("file", "split", "records", "bytes", "SHA-256"))
    is_open = " open" if len(manifest.files) <= 12 else ""
    yield (
        f"<section><details{is_open}><summary><h2>Files <small>{len(manifest.files):,}</small></h2></summary><div class='scroll'>"
        f'<table class="files"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{more}</details></section>'
    )


def _provenance(manifest: Manifest, success: Success) -> Iterator[str]:
    facts = [
        ("run", manifest.run_id),
        ("manifest", success.manifest),
        ("SHA-256 of the manifest", success.sha256),
        ("digest of the files", manifest.digest),
        ("digest before compression", manifest.raw_digest),
        ("digest of the inputs", manifest.inputs_sha256),
        ("made by", ", ".join(f"{name} {version}" for name, version in sorted(manifest.tools.items()))),
    ]
    rows = "".join(f'<tr><th scope="row">{text(name)}</th><td class="hash">{text(value)}</td></tr>' for name, value in facts)
    job = text_block(json.dumps(manifest.content, indent=2, ensure_ascii=False, sort_keys=True))
    yield (
        f'<section><h2>Where it comes from</h2><table class="facts"><tbody>{rows}</tbody></table>'
        f"<details><summary>Fields of the job that affect the files' bytes</summary><pre>{job}</pre></details></section>"
    )


def text_block(value: str) -> str:
    """Escapes each line of a string."""
    return "\n".join(text(line) for line in value.split("\n"))


# --- text -------------------------------------------------------------------------------------------------------------


def size(count: int) -> str:
    """Formats a number of bytes: `891 B`, `49.0 MB`."""
    if count < 1000:
        return f"{count} B"
    power = min(5, int(math.log10(count) // 3))
    return f"{count / 1000**power:.3g} {'kMGTP'[power - 1]}B"


def _shorten(value: str, most: int = _SHOWN_TEXT) -> str:
    return value if len(value) <= most else value[: most - 1] + "…"
