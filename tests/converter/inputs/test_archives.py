"""Files within archives are read like other files. Harmful archives are refused with an error that names them."""

import gzip
import io
import os
import tarfile
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.builders.archives import a_tar, a_zip
from tests.builders.jobs import run_job
from tests.builders.packed import PACKERS
from tests.converter.readers.reader_contract import ReaderContract, batches, opened, plan, read_all, rows

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_converter.core.errors import BadData, BadSpec, InputChanged, NotFound
from dataprep_converter.inputs import archive_index, archives, streamed
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archive_uris import archive_of, split_archive_uri
from dataprep_converter.readers import Reader
from dataprep_converter.readers.arrays.fixed_length import FixedLengthReader
from dataprep_converter.readers.text.delimited import CsvReader
from dataprep_converter.readers.whole_file import WholeFileReader
from dataprep_converter.steps.conversion.convert_plan import source_uris

SUFFIXES = ["zip", "stored.zip", "tar", "tar.gz", "tgz"]


def put(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write an archive of the kind that the file's extension indicates."""
    name = path.name
    if name.endswith(".zip"):
        data = a_zip(files, method=zipfile.ZIP_STORED if ".stored." in name else zipfile.ZIP_DEFLATED)
    else:
        data = a_tar(files)
    ending = name.rpartition(".")[2].replace("tgz", "gz")
    path.write_bytes(PACKERS[ending](data) if ending in PACKERS else data)
    return path


def whole_files(*uris: str) -> Source:
    return Source.model_validate({"wholeFile": {"uris": list(uris)}})


def contents(*uris: str, **options: Any) -> dict[str, bytes]:
    return {row["path"]: row["content"] for row in rows(batches(WholeFileReader, whole_files(*uris), **options))}


class ArchiveContract(ReaderContract):
    suffix: ClassVar[str]

    @pytest.fixture(autouse=True)
    def little_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(archives, "KEPT_BYTES", 5_000)

    def source(self, uri: str) -> Source:
        raise NotImplementedError

    def files(self, size: int) -> dict[str, bytes]:
        raise NotImplementedError

    def a_source(self, folder: Path) -> Source:
        return self.source(f"{put(folder / f'a.{self.suffix}', self.files(1))}!/data")

    def an_empty_source(self, folder: Path) -> Source:
        return self.source(f"{put(folder / f'a.{self.suffix}', {'data/a.bin': b''})}!/data")

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        uri = f"{put(folder / f'a.{self.suffix}', {'data/a': b''})}!/absent"
        return self.source(uri), uri

    def change(self, folder: Path) -> Path:
        return put(folder / f"a.{self.suffix}", self.files(2))

    def test_a_changed_input_is_named(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        units, state = plan(self.reader, source)
        changed = self.change(tmp_path)
        with pytest.raises(InputChanged, match="has changed since it was planned") as caught:
            read_all(opened(self.reader, source, state), units, iter([np.arange(units.samples, dtype=np.int64)]))
        assert str(caught.value.uri).startswith(f"{changed}!/data/")


class GzippedContract(ArchiveContract):
    def open_files(self) -> Counter[str]:
        """Omits deleted temporary files. Also omits the archive itself, because its stream stays open for the next member."""
        return Counter({name: n for name, n in super().open_files().items() if f"a.{self.suffix}" not in name and "(deleted)" not in name})


class FixedLengthContract(ArchiveContract):
    reader: ClassVar[type[Reader]] = FixedLengthReader

    def source(self, uri: str) -> Source:
        return Source.model_validate({"fixedLength": {"uris": [uri], "recordBytes": 10}})

    def files(self, size: int) -> dict[str, bytes]:
        return {f"data/{name}.bin": os.urandom(300 * size) for name in "ab"} | {"other.bin": b"x"}


class TestFixedLengthInZip(FixedLengthContract):
    suffix = "zip"


class TestFixedLengthInTar(FixedLengthContract):
    suffix = "tar"


class TestFixedLengthInGzippedTar(FixedLengthContract, GzippedContract):
    suffix = "tar.gz"


class WholeFileContract(ArchiveContract):
    reader: ClassVar[type[Reader]] = WholeFileReader

    def source(self, uri: str) -> Source:
        return whole_files(uri)

    def files(self, size: int) -> dict[str, bytes]:
        return {f"data/{n % 3}/{n:05}": bytes([n % 256]) * (n % 50) for n in range(25 * size)}

    def an_empty_source(self, folder: Path) -> Source:
        uri = f"{put(folder / f'a.{self.suffix}', {'data/a.bin': b''})}!/data"
        return Source.model_validate({"wholeFile": {"uris": [uri], "extensions": ["dat"]}})


class TestWholeFilesInStoredZip(WholeFileContract):
    suffix = "stored.zip"


class TestWholeFilesInGzippedTar(WholeFileContract, GzippedContract):
    suffix = "tgz"


class TestWholeFilesInTarOfLz4(WholeFileContract, GzippedContract):
    suffix = "tar.lz4"


FILES = {
    "train/cat/1.jpg": b"meow",
    "train/dog/1.jpg": b"woof" * 1000,
    "train/dog/2.jpg": b"",
    "test/3.jpg": b"?",
    "a b/\u00e4.txt": b"text",
    "__MACOSX/._1.jpg": b"junk",
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_members_are_named_by_folder_glob_and_path(tmp_path: Path, suffix: str) -> None:
    archive = put(tmp_path / f"data.{suffix}", FILES)
    assert contents(f"{archive}!/") == contents(f"{archive}!") == {path: data for path, data in FILES.items() if path[0] != "_"}
    assert contents(f"{archive}!/train") == {"cat/1.jpg": b"meow", "dog/1.jpg": b"woof" * 1000, "dog/2.jpg": b""}
    assert contents(f"{archive}!/train/dog/*.jpg") == {"1.jpg": b"woof" * 1000, "2.jpg": b""}
    assert contents(f"{archive}!/*/*.jpg") == {"test/3.jpg": b"?"}
    assert contents(f"{archive}!/a b/\u00e4.txt") == {"\u00e4.txt": b"text"}


def test_the_kind_of_archive_is_told_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(gzip.compress(a_tar(FILES)))
    assert contents(f"{tmp_path}/a.zip!/test") == {"3.jpg": b"?"}


def test_paths_are_made_plain(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_tar({"./x/./y": b"1", ".//z": b"2"}))
    assert contents(f"{tmp_path}/a.tar!/") == {"x/y": b"1", "z": b"2"}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["ustar", "gnu", "pax"])
def test_every_form_of_tar_is_read(tmp_path: Path, form: int) -> None:
    files = {f"{'folder/' * 15}{n}.txt": bytes([n]) * 1000 * n for n in range(5)}
    (tmp_path / "a.tar").write_bytes(a_tar(files, form=form))
    assert contents(f"{tmp_path}/a.tar!/") == files


def test_csv_files_in_an_archive_are_rows(tmp_path: Path) -> None:
    archive = put(tmp_path / "tables.tar.gz", {"a.csv": b"x,y\n1,2\n", "b.csv": b"x,y\n3,4\n"})
    source = Source.model_validate({"csv": {"uris": [f"{archive}!/*.csv"], "header": True}})
    assert [(row["x"], row["y"]) for row in rows(batches(CsvReader, source))] == [(1, 2), (3, 4)]


def test_the_key_of_a_member_does_not_depend_on_the_archive(tmp_path: Path) -> None:
    keys = []
    for suffix in SUFFIXES:
        units, _ = plan(WholeFileReader, whole_files(f"{put(tmp_path / f'data.{suffix}', FILES)}!/train"))
        keys.append(units.keys().tolist())
    assert all(key == keys[0] for key in keys)


@pytest.mark.slow
def test_a_gzipped_tar_file_is_inflated_once_in_order_and_once_more_in_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "KEPT_BYTES", 0)
    files = {f"{n:02}": os.urandom(1 << 20) for n in range(12)}
    archive = put(tmp_path / "a.tar.gz", files)
    store = Access().store(f"{archive}!/")
    inflated = 0
    real = streamed.unpacked

    def counted(*args: Any, **options: Any) -> Any:
        made: Any = real(*args, **options)
        start = made._start

        def count() -> Any:
            nonlocal inflated
            for piece in start():
                inflated += len(piece)
                yield piece

        made._start, made._pieces = count, count()
        return made

    monkeypatch.setattr(archives, "unpacked", counted)
    for name in sorted(files):
        assert store.get(f"{archive}!/{name}") == files[name]
    once = inflated
    assert once <= 14 << 20
    for name in ("05", "01", "11", "03"):
        assert store.get(f"{archive}!/{name}") == files[name]
    assert inflated - once <= 14 << 20


def test_a_data_set_from_an_archive_is_that_from_the_folder(tmp_path: Path) -> None:
    files = {f"{n % 3}/{n}.bin": os.urandom(n * 50) for n in range(40)}
    for path, content in files.items():
        (tmp_path / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / path).write_bytes(content)
    inputs = {"folder": str(tmp_path / "in")} | {suffix: f"{put(tmp_path / f'in.{suffix}', files)}!/" for suffix in ("zip", "tar.gz")}
    made = {}
    for name, uri in inputs.items():
        splits = {"seed": 1, "into": [{"name": "train", "fraction": 0.7}, {"name": "test", "fraction": 0.3}]}
        document = {
            "apiVersion": "dataprep.io/v1alpha1",
            "kind": "DataPrepJob",
            "metadata": {"name": "x"},
            "spec": {
                "source": {"wholeFile": {"uris": [uri]}},
                "features": [{"name": "content"}, {"name": "path"}],
                "splits": splits,
                "shuffle": {"seed": 2},
                "output": {"uri": str(tmp_path / "out" / name), "shards": {"count": 2}},
            },
        }
        run_job(DataPrepJob.parse(document))
        made[name] = {file.name: file.read_bytes() for file in (tmp_path / "out" / name).glob("*.tfrecords")}
    assert len(made["folder"]) == 4
    assert made["zip"] == made["tar.gz"] == made["folder"]


def test_the_archive_of_a_uri_is_what_stands_before_the_sign() -> None:
    assert split_archive_uri("s3://b/x.tar.gz!/a/b.png") == ("s3://b/x.tar.gz", "a/b.png")
    assert split_archive_uri("x.ZIP!") == ("x.ZIP", "")
    assert split_archive_uri("s3://b/wow!/a.png") is None
    assert archive_of("s3://b/wow!/a.png") == "s3://b/wow!/a.png"


def test_the_checks_before_a_job_look_at_the_archive_only() -> None:
    source = whole_files("s3://b/x.zip!/train/*.png", "y/*.png")
    spec = DataPrepJobSpec.model_validate({"source": source, "output": {"uri": "out"}})
    assert source_uris(spec) == ["s3://b/x.zip", "y"]


def refused(path: Path, data: bytes) -> str:
    """Write an archive, read it, and return the error."""
    path.write_bytes(data)
    with pytest.raises(BadData) as caught:
        contents(f"{path}!/")
    assert caught.value.uri == str(path)
    return str(caught.value)


def a_tar_of(*members: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info in members:
            archive.addfile(info)
    return out.getvalue()


def a_link(kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo("l")
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "a/.."])
def test_members_outside_the_archive_are_refused(tmp_path: Path, name: str) -> None:
    for path, data in ((tmp_path / "a.zip", a_zip({name: b"x"})), (tmp_path / "a.tar", a_tar({name: b"x"}))):
        assert refused(path, data) == f"{path}: the member {name!r} lies outside the archive."


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE], ids=["symbolic", "hard"])
def test_links_in_a_tar_file_are_refused(tmp_path: Path, kind: bytes) -> None:
    assert refused(tmp_path / "a.tar", a_tar_of(a_link(kind))) == f"{tmp_path}/a.tar: the member 'l' is a link."


def test_links_in_a_zip_file_are_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("l")
    info.external_attr = 0o120777 << 16
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert refused(tmp_path / "a.zip", out.getvalue()) == f"{tmp_path}/a.zip: the member 'l' is a link."


def test_devices_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "a.tar", a_tar_of(a_link(tarfile.FIFOTYPE))).endswith("the member 'l' isn't a regular file.")


def test_encrypted_members_are_refused(tmp_path: Path) -> None:
    data = bytearray(a_zip({"a": b"x"}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert refused(tmp_path / "a.zip", bytes(data)) == f"{tmp_path}/a.zip: the member 'a' is encrypted."


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    data = a_zip({"a/b": b"1", "a//b": b"2"})
    assert refused(tmp_path / "a.zip", data) == f"{tmp_path}/a.zip has two members 'a/b'."
    assert refused(tmp_path / "a.tar", a_tar({"a": b"1", "./a": b"2"})) == f"{tmp_path}/a.tar has two members 'a'."


def test_a_member_out_of_proportion_is_refused(tmp_path: Path) -> None:
    data = a_zip({"zeros": bytes(80 << 20)})
    told = refused(tmp_path / "a.zip", data)
    assert told.startswith(f"{tmp_path}/a.zip: the member 'zeros' would expand from ")
    assert told.endswith(" to 83,886,080 bytes, more than the allowed factor of 200.")


@pytest.mark.parametrize("suffix", ["zip", "tar.gz"])
def test_contents_out_of_proportion_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr(archive_index, "UNSUSPECTED_TOTAL_BYTES", 1 << 20)
    path = put(tmp_path / f"a.{suffix}", {f"{n}": bytes(1 << 20) for n in range(8)})
    assert "a." in (told := refused(path, path.read_bytes()))
    assert told.endswith("more than the allowed factor of 200.")


def test_a_size_that_is_not_true_is_found(tmp_path: Path) -> None:
    data = bytearray(a_zip({"a": bytes(5000)}))
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = (100).to_bytes(4, "little")
    assert refused(tmp_path / "a.zip", bytes(data)) == f"{tmp_path}/a.zip: the member 'a' has more than the 100 bytes that it should have."


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    data = bytearray(a_zip({"a": os.urandom(5000), "b": os.urandom(5000)}))
    second = data.rindex(b"PK\x01\x02") + 42
    data[second : second + 4] = (20).to_bytes(4, "little")
    assert refused(tmp_path / "a.zip", bytes(data)) == f"{tmp_path}/a.zip: the member 'b' overlaps another member."


def test_more_members_than_are_held_in_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_index, "MOST_MEMBERS", 3)
    assert refused(tmp_path / "a.zip", a_zip({f"{n}": b"" for n in range(4)})) == f"{tmp_path}/a.zip has more than 3 members."


def test_a_broken_header_in_the_middle_is_found(tmp_path: Path) -> None:
    data = bytearray(a_tar({"a": b"x" * 600, "b": b"y"}, form=tarfile.USTAR_FORMAT))
    data[1536] ^= 1
    assert refused(tmp_path / "a.tar", bytes(data)) == f"{tmp_path}/a.tar: there is no valid member header at offset 1536."


@pytest.mark.parametrize(
    ("cut", "told"), [(700, "is not a complete tar file: unexpected end of data"), (300, "is not a complete tar file: ")]
)
def test_a_tar_file_that_is_cut_is_refused(tmp_path: Path, cut: int, told: str) -> None:
    assert told in refused(tmp_path / "a.tar", a_tar({"a": b"x" * 600, "b": b"y"}, form=tarfile.USTAR_FORMAT)[:cut])


def test_a_gzipped_tar_file_that_is_cut_or_damaged_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(a_tar({"a": os.urandom(5000)}))
    assert refused(tmp_path / "a.tgz", data[:-9]) == f"{tmp_path}/a.tgz: the gzip stream ends early."
    assert "not valid gzip" in refused(tmp_path / "a.tgz", data[:-8] + bytes(8))


NO_ARCHIVES = {"empty": b"", "PNG": b"\x89PNG" * 200, "zip": b"PK\x03\x04" + bytes(100), "gzip": gzip.compress(b"no tar" * 200)}


@pytest.mark.parametrize("data", NO_ARCHIVES.values(), ids=NO_ARCHIVES.keys())
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    assert "a.zip is not a complete " in refused(tmp_path / "a.zip", data)


def test_an_absent_archive_and_an_absent_member_are_named(tmp_path: Path) -> None:
    for uri in (f"{tmp_path}/absent.zip!/a", f"{put(tmp_path / 'a.zip', FILES)}!/absent"):
        with pytest.raises(NotFound, match="names no file"):
            contents(uri)


def test_a_glob_of_archives_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.zip", FILES)
    with pytest.raises(BadSpec, match="a glob can match members of an archive, but not archives themselves"):
        contents(f"{tmp_path}/*.zip!/train")


def test_an_archive_is_never_written(tmp_path: Path) -> None:
    uri = f"{put(tmp_path / 'a.zip', FILES)}!/x"
    with pytest.raises(BadSpec, match=r"a\.zip!/x is inside an archive; archives are read-only\."):
        Access().store(uri).put(uri, b"x")


# --- checksums of stored members ----------------------------------------------------------------------------------


def flipped(path: Path, content: bytes) -> Path:
    """Flip one bit of a member's content in the archive."""
    data = path.read_bytes()
    at = data.index(content) + len(content) // 2
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    return path


def test_a_flipped_bit_in_a_stored_member_is_an_error_that_names_it(tmp_path: Path) -> None:
    content = b"0123456789" * 20_000
    archive = flipped(put(tmp_path / "a.stored.zip", {"good": b"g", "x/bad": content}), content)
    with pytest.raises(BadData, match=r"a\.stored\.zip: the member 'x/bad' has a wrong checksum\."):
        contents(f"{archive}!/")
    assert list(contents(f"{archive}!/good").values()) == [b"g"]


def test_a_flipped_bit_in_stored_rows_is_an_error_that_names_them(tmp_path: Path) -> None:
    content = b"1,2\n3,4\n" * 5_000
    archive = flipped(put(tmp_path / "a.stored.zip", {"rows.csv": content}), content)
    source = Source.model_validate({"csv": {"uris": [f"{archive}!/rows.csv"], "columns": [{"name": n, "type": "String"} for n in "ab"]}})
    with pytest.raises(BadData, match=r"a\.stored\.zip: the member 'rows\.csv' has a wrong checksum\."):
        plan(CsvReader, source)


def test_pieces_in_order_are_summed_and_others_are_not(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    archive = flipped(put(tmp_path / "a.stored.zip", {"x": content}), content)
    with Access().store(f"{archive}!/x").open(f"{archive}!/x") as member:
        assert len(member.read_at(200_000, 56_000)) == 56_000
        assert len(member.read_at(0, 100_000)) == 100_000
        assert len(member.read_at(50_000, 100_000)) == 100_000
        assert len(member.read_at(160_000, 90_000)) == 90_000
        with pytest.raises(BadData, match="the member 'x' has a wrong checksum"):
            member.read_at(250_000, 6_000)
