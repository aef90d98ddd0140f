"""`dataprep inspect --html`: a single file with images of each class, without scripts, requests or markup from the data."""

import base64
import hashlib
import io
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.builders.jobs import run_spec
from tests.converter.cli.commandline import code_of, mnist_run

from dataprep_api.redaction import printable
from dataprep_converter.tools.inspect import html_charts
from dataprep_converter.tools.inspect.html_charts import Axis, bar, histogram, stacked
from dataprep_converter.tools.inspect.html_pictures import png
from dataprep_converter.tools.inspect.html_report import size
from dataprep_converter.tools.inspect.html_text import text

EVIL = '<script>alert("&1")</script>'
_VOID = {"meta", "img", "rect"}


class Page(HTMLParser):
    """The contents of a page. Every open element must be closed, in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def images(self) -> list[bytes]:
        """Returns the contents of the embedded images."""
        found = [attrs["src"] or "" for tag, attrs in self.tags if tag == "img"]
        return [base64.b64decode(uri.partition(",")[2], validate=True) for uri in found]


def a_page(output: Path) -> Page:
    file = output.parent / f"{output.name}.html"
    assert code_of("inspect", output, "--html", file) == 0
    return Page(file.read_text(encoding="utf-8"))


def assert_self_contained(page: Page) -> None:
    """Checks that the page has nothing that could make requests or run code."""
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "embed", "base", "form", "a", "image", "use"}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("href", "style", "srcset", "action", "xlink:href")]
        assert (attributes.get("src") or "data:image/").startswith("data:image/")
    [policy] = [attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    style = page.source[page.source.index("<style>") : page.source.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"https?://", page.source)


def a_run(folder: Path, spec: dict[str, Any], out: str = "out") -> Path:
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}, "spec": spec}
    job["spec"] = spec | {"output": {"uri": str(folder / out)} | spec.get("output", {})}
    (folder / "job.json").write_text(json.dumps(job))
    assert code_of("run", folder / "job.json", "--quiet", "--workers", "1") == 0
    return folder / out


def photos(folder: Path, classes: Sequence[str], *, each: int = 3, side: int = 6) -> str:
    """Writes images for each class, each image in a single grey."""
    for shade, name in enumerate(classes):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(each):
            Image.new("RGB", (side + number, side), (20 + 60 * shade,) * 3).save(folder / "photos" / name / f"{number}.png")
    return str(folder / "photos")


def test_markup_in_the_data_is_shown_as_text(tmp_path: Path) -> None:
    rows = [f"{number},{EVIL},{EVIL if number % 2 else 'good'}" for number in range(40)]
    (tmp_path / "in.csv").write_text(
        "\n".join(
            f'{a},"{b.replace(chr(34), chr(34) * 2)}","{c.replace(chr(34), chr(34) * 2)}"' for a, b, c in (row.split(",") for row in rows)
        )
    )
    columns = [{"name": "n<b>", "type": "Int64"}, {"name": "word", "type": "String"}, {"name": "y", "type": "String"}]
    spec = {
        "source": {"csv": {"uris": [str(tmp_path / "in.csv")], "columns": columns}},
        "transforms": [{"vocabulary": {"columns": ["y"]}}],
        "features": [{"name": "n<b>"}, {"name": "word"}],
        "labels": [{"name": 'y"', "columns": ["y"]}],
    }
    page = a_page(a_run(tmp_path, spec))
    assert_self_contained(page)
    assert "<script" not in page.source
    shown = "\n".join(page.words)
    assert shown.count(EVIL) >= 3
    assert 'y"' in shown
    assert "n<b>" in shown


def test_the_contact_sheet_has_images_of_every_class(tmp_path: Path) -> None:
    spec = {"source": {"images": {"uris": [photos(tmp_path, ["ape", "bee", "<i>cat"])]}}}
    page = a_page(a_run(tmp_path, spec))
    assert_self_contained(page)
    files = {file.read_bytes() for file in (tmp_path / "photos").rglob("*.png")}
    assert set(page.images()) == files
    figures = re.findall(r"<figcaption>(.*?)</figcaption>", page.source)
    assert [re.sub("<[^>]*>", "", caption) for caption in figures] == ["0 &lt;i&gt;cat", "1 ape", "2 bee"]


def test_large_images_become_small_ones(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (400, 300, 3), dtype=np.uint8)
    (tmp_path / "photos" / "a").mkdir(parents=True)
    Image.fromarray(noise).save(tmp_path / "photos" / "a" / "1.png")
    [found] = a_page(a_run(tmp_path, {"source": {"images": {"uris": [str(tmp_path / "photos")]}}})).images()
    with Image.open(io.BytesIO(found)) as image:
        assert image.format == "JPEG"
        assert max(image.size) == 192


@pytest.mark.parametrize("format_", ["tfrecord", "npz", "parquet"])
def test_tensors_are_pictures_whatever_the_format(few: Path, tmp_path: Path, format_: str) -> None:
    fields = {"output.format": format_, "output.fileName": "{split}.{ext}", "limit": 400}
    assert code_of("run", *mnist_run(few, tmp_path / "out", fields), "--quiet", "--workers", "1") == 0
    page = a_page(tmp_path / "out")
    assert_self_contained(page)
    images = page.images()
    assert len(images) == 80
    with Image.open(io.BytesIO(images[0])) as image:
        assert (image.mode, image.size) == ("L", (28, 28))
        first = np.asarray(image)
    # The fixture's pixels: 31 times the image's number, plus 7 for each pixel.
    assert len({(7 * number + int(first.flat[0])) % 256 - int(value) for number, value in enumerate(first.flat)} - {0}) == 0
    assert {"train", "validation", "test"} <= set(page.words)


def test_a_data_set_of_an_older_version_has_a_report_too(few: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert code_of("run", *mnist_run(few, output, {"limit": 100}), "--quiet", "--workers", "1") == 0
    [manifest] = output.rglob("manifest.json")
    old = json.loads(manifest.read_bytes()) | {"metadata": []}
    manifest.write_text(json.dumps(old))
    success = json.loads((output / "_SUCCESS").read_bytes())
    (output / "_SUCCESS").write_text(json.dumps(success | {"sha256": hashlib.sha256(manifest.read_bytes()).hexdigest()}))
    page = a_page(output)
    assert "This data set has no statistics: it was made by an older version of dataprep." in page.words
    assert len(page.images()) > 0


def test_changed_statistics_are_refused(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out"
    assert code_of("run", *mnist_run(few, output, {"limit": 100}), "--quiet", "--workers", "1") == 0
    file = output / "_dataprep" / "statistics.json"
    file.write_text(file.read_text().replace('"max": 9', '"max": 8'))
    capsys.readouterr()
    assert code_of("inspect", output) == 5
    assert capsys.readouterr().err == f"dataprep: error: {file} is not the file that the manifest names.\n"


def test_a_report_that_cannot_be_written_is_an_error(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out"
    assert code_of("run", *mnist_run(few, output, {"limit": 100}), "--quiet", "--workers", "1") == 0
    capsys.readouterr()
    assert code_of("inspect", output, "--html", tmp_path / "absent" / "x.html") == 2
    assert "can't write" in capsys.readouterr().err


def test_the_terminal_shows_statistics_and_warnings(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("run", *mnist_run(few, tmp_path / "out"), "--quiet", "--workers", "1") == 0
    capsys.readouterr()
    assert code_of("inspect", tmp_path / "out") == 0
    shown = capsys.readouterr().out
    assert re.search(r"│ label +│ values │ train +│ +1,000 │ +0 │ +0 │ +4 │ +4.5 │ +2.872 │ +9 │", shown)
    assert code_of("inspect", tmp_path / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["statistics"]["splits"]["train"]["records"] == 1000


# --- parts ------------------------------------------------------------------------------------------------------------


def test_what_html_cannot_hold_is_escaped() -> None:
    assert text("a\x00b\ud800<&\"'\u202e\n👩‍🔬") == "a\\u0000b\\ud800&lt;&amp;&quot;&#x27;\\u202e\\n👩‍🔬"


def test_titles_of_charts_are_text_too() -> None:
    hostile = '<b>\x1b[31m\u202e"s3://k:s3cr3t@b/x'
    on = Axis(low=0, high=1, bins=1)
    for drawn in (histogram([1.0], on, color=0, name=hostile), bar(0.5, color=0, title=hostile), stacked([(hostile, 1.0)])):
        assert "&lt;b&gt;\\u001b[31m\\u202e&quot;s3://…@b/x" in drawn
        assert "<b>" not in drawn
        assert printable(drawn) == drawn


def test_a_long_text_with_a_credential_is_not_cut_before_it_can_be_seen(tmp_path: Path) -> None:
    address = f"s3://AKIA:{'Mk7-hunter2' * 8}@bucket/x"
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"a": address}) + "\n" for _ in range(40)))
    page = a_page(a_run(tmp_path, {"source": {"jsonl": {"uris": [str(tmp_path / "in.jsonl")]}}, "output": {"format": "jsonl"}}))
    assert "hunter2" not in page.source


@pytest.mark.parametrize(("count", "said"), [(891, "891 B"), (49_005_000, "49 MB"), (1234, "1.23 kB"), (10**15, "1 PB")])
def test_sizes_have_three_digits(count: int, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1), (5, 4, 3), (5, 4, 4)], ids=str)
def test_a_png_is_read_by_pillow(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as image:
        np.testing.assert_array_equal(np.asarray(image).reshape(shape), pixels)


def numbers(histogram: list[list[float]], **more: Any) -> dict[str, Any]:
    ends = {"min": histogram[0][0], "max": histogram[-1][1]}
    return {**ends, "histogram": histogram, "quantiles": {"0.95": histogram[-1][1]}, **more}


@pytest.mark.parametrize(
    ("histogram", "is_whole", "bins", "is_log"),
    [
        ([[0, 0, 5], [1, 1, 2], [9, 9, 1]], True, 10, False),
        ([[0, 0, 5], [1000, 1000, 2]], True, 39, False),
        ([[-1.0, -0.5, 5], [0.25, 0.5, 5]], False, 40, False),
        ([[7.0, 7.0, 5]], False, 41, False),
        ([[-1.7e308, -1.6e308, 5], [1.6e308, 1.7e308, 5]], False, 40, False),
    ],
    ids=["few whole numbers", "many", "floats", "one value", "all floats"],
)
def test_all_values_are_in_the_bins_of_the_axis(histogram: list[list[float]], is_whole: bool, bins: int, is_log: bool) -> None:
    on = html_charts.axis([numbers(histogram)], is_whole=is_whole)
    assert on is not None
    assert (on.bins, on.is_log) == (bins, is_log)
    assert sum(html_charts.binned(histogram, on)) == pytest.approx(sum(count for _, _, count in histogram))


def test_a_long_tail_gets_a_logarithmic_axis() -> None:
    found = numbers([[0.0, 0.0, 3], [1.0, 2.0, 900], [1e6, 1.1e6, 1]], quantiles={"0.95": 2.0})
    on = html_charts.axis([found], is_whole=False)
    assert on is not None
    assert on.is_log
    counts = html_charts.binned(found["histogram"], on)
    assert sum(counts) == pytest.approx(904)
    assert counts[-1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "-"), (0, "0"), (2023.0, "2,023"), (107.312, "107.3"), (344915.2, "344,915"), (1.7e9, "1.7e9"), (0.0001234567, "0.0001235")],
    ids=str,
)
def test_numbers_are_short(value: float | None, said: str) -> None:
    assert html_charts.short(value) == said


def test_numbers_in_tables_are_shorter() -> None:
    assert [html_charts.brief(value) for value in (99_999, 344_915.2, 2_090_241, -1.5e9)] == ["99,999", "344.9k", "2.09M", "-1.5G"]


@pytest.mark.parametrize(("share", "shown"), [
    (0, "0%"), (0.0002, "<0.1%"), (0.001, "0.1%"), (0.125, "12.5%"), (0.9991, ">99.9%"), (1, "100%"),
])  # fmt: skip
def test_a_share_is_shown_as_0_or_100_percent_only_if_it_is(share: float, shown: str) -> None:
    assert html_charts.percent(share) == shown


def test_the_share_of_nulls_of_each_split_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"n": None if number % 4 == 0 else number, "x": number} for number in range(16)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    splits = {"into": [{"name": "train", "first": 12}, {"name": "test"}]}
    spec = {"source": {"jsonl": {"uris": [str(tmp_path / "rows.jsonl")]}}, "splits": splits, "output": {"uri": str(tmp_path / "out")}}
    run_spec(spec)
    assert code_of("inspect", tmp_path / "out", "--html", tmp_path / "report.html") == 0
    words = " ".join(Page((tmp_path / "report.html").read_text()).words)
    assert re.findall(r"share of nulls\s+(\w+)\s+3\s+25\.0%\s+(\w+)\s+1\s+25\.0%", words) == [("train", "test")]
    assert words.count("share of nulls") == 1
    capsys.readouterr()
    assert code_of("inspect", tmp_path / "out") == 0
    assert "3 (25.0%)" in capsys.readouterr().out
