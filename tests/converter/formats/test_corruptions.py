"""Intact and damaged data sets of every format: `verify` reports exactly the damage, and `repair` restores the original bytes."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from tests.builders import pairs
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.formats.cases import CASES

from dataprep_api import canonical, names
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import NotFound, NotWhole
from dataprep_converter.formats.registry import decoder
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.repair import repair
from dataprep_converter.tools.verification import Verification, verify

ROWS: Final = 90

VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "shards": {},
    "splits": {"splits": {"into": [{"name": "train", "fraction": 0.7}, {"name": "test", "fraction": 0.3}]}},
    "shuffled": {"shuffle": {"seed": 5}},
    "one": {"limit": 40, "output": {"shards": {"count": 1}}},
}
GZIP: Final = ("tfrecord", "jsonl", "csv")


def inputs(folder: Path) -> None:
    """Write a table with a bad row, and some files."""
    lines = [f"{n / 7:.3f},{n},{-n},{n * n},word {n % 11},{n % 3}\n" for n in range(ROWS)]
    lines[17] = "1,2,3,none,x,0\n"
    (folder / "table.csv").write_text("".join(lines))
    (folder / "files").mkdir()
    for n in range(30):
        (folder / "files" / f"{n:03}.txt").write_bytes(Random(n).randbytes(20 + 3 * n))  # noqa: S311 - must give the same bytes each time


def a_job(folder: Path, format_: str, out: Path, **more: Any) -> DataPrepJob:
    holds = dict(CASES[format_].spec)
    columns = [{"name": name, "type": "Float32"} for name in "abc"] + [
        {"name": "n", "type": "Int64"}, {"name": "word", "type": "String"}, {"name": "y", "type": "Int64"},
    ]  # fmt: skip
    source: dict[str, Any] = {"csv": {"uris": [str(folder / "table.csv")], "columns": columns}}
    if holds.pop("source", "") == "files":
        source = {"wholeFile": {"uris": [str(folder / "files")]}}
    output = {"shards": {"count": 3}} | more.pop("output", {}) | {"uri": str(out), "format": format_}
    spec = {"source": source, "onBadRecord": {"policy": "Quarantine"}, **holds, **more, "output": output}
    return parse_job(spec)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    inputs(folder)
    return folder


@pytest.fixture(scope="module")
def finished(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a finished data set of a format, which is made only once."""
    known: dict[str, Path] = {}

    def of(format_: str) -> Path:
        if format_ not in known:
            known[format_] = tmp_path_factory.mktemp(format_) / "out"
            run_job(a_job(source, format_, known[format_]))
        return known[format_]

    return of


# --- healthy -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_", "variant"),
    pairs.chosen(
        ((format_, variant) for format_ in CASES for variant in VARIANTS),
        lambda format_, variant: pairs.has_turn(format_, variant, list(CASES), list(VARIANTS)),
    ),
)
def test_nothing_is_reported_of_a_healthy_data_set(format_: str, variant: str, source: Path, tmp_path: Path) -> None:
    run_job(a_job(source, format_, tmp_path, **dict(VARIANTS[variant])))
    assert [fault.text for fault in Verification(str(tmp_path), Access()).faults(every_record=True)] == []


@pytest.mark.parametrize("format_", GZIP)
def test_nothing_is_reported_of_a_healthy_compressed_data_set(format_: str, source: Path, tmp_path: Path) -> None:
    run_job(a_job(source, format_, tmp_path, output={format_: {"compression": "Gzip"}}))
    assert [fault.text for fault in Verification(str(tmp_path), Access()).faults(every_record=True)] == []


# --- damage ----------------------------------------------------------------------------------------------------------


class Damage:
    """A copy of a data set, with methods to damage it. Each method returns a description of the damage, or "" if it doesn't apply to this
    data set."""

    def __init__(self, folder: Path, dice: Random) -> None:
        self.folder = folder
        self.dice = dice
        self.manifest = Manifest.model_validate_json(next(folder.glob("_dataprep/*/manifest.json")).read_bytes())
        self.side = folder / names.run_folder(self.manifest.run_id)

    def shard(self) -> Path:
        return self.folder / self.dice.choice(self.manifest.files).file

    def flipped_bit(self) -> str:
        return flip(self.shard(), self.dice)

    def cut_anywhere(self) -> str:
        file = self.shard()
        size = self.dice.randrange(file.stat().st_size)
        file.write_bytes(file.read_bytes()[:size])
        return f"{file.name} cut to {size}"

    def cut_between_records(self) -> str:
        file = self.shard()
        offsets = sorted({offset for offset, _ in decoder(self.manifest).read([file.read_bytes()])} - {0})
        if self.manifest.compression != "none" or not offsets:
            return ""
        size = self.dice.choice(offsets)
        file.write_bytes(file.read_bytes()[:size])
        return f"{file.name} cut between records at {size}"

    def cut_at_the_end(self) -> str:
        file = self.shard()
        file.write_bytes(file.read_bytes()[: -self.dice.randint(1, 20)])
        return f"end of {file.name} cut off"

    def swapped(self) -> str:
        one, other = (self.folder / file.file for file in self.dice.sample(self.manifest.files, 2))
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)
        return f"{one.name} and {other.name} swapped"

    def doubled_in_itself(self) -> str:
        file = self.shard()
        file.write_bytes(file.read_bytes() * 2)
        return f"{file.name} twice in itself"

    def doubled(self) -> str:
        file = self.shard()
        shutil.copy(file, file.with_name(f"again-{file.name}"))
        return f"a copy of {file.name}"

    def in_place_of_another(self) -> str:
        one, other = (self.folder / file.file for file in self.dice.sample(self.manifest.files, 2))
        shutil.copy(one, other)
        return f"{one.name} in place of {other.name}"

    def missing(self) -> str:
        file = self.shard()
        file.unlink()
        return f"{file.name} is missing"

    def changed_companion(self) -> str:
        companions = [companion.file for file in self.manifest.files for companion in file.companions]
        return flip(self.folder / self.dice.choice(companions), self.dice) if companions else ""

    def changed_metadata(self) -> str:
        files = [self.folder / each.file for each in self.manifest.metadata if each.size]
        return flip(self.dice.choice(files), self.dice) if files else ""

    def missing_metadata(self) -> str:
        if not self.manifest.metadata:
            return ""
        file = self.dice.choice(self.manifest.metadata).file
        (self.folder / file).unlink()
        return f"{file} is missing"

    def changed_manifest(self) -> str:
        return flip(self.side / "manifest.json", self.dice)

    def edited_manifest(self) -> str:
        """Change a field of the manifest, and update the digest in `_SUCCESS`, so that the digest doesn't reveal the change."""
        document = json.loads((self.side / "manifest.json").read_bytes())
        field = self.dice.choice(
            ["recordsOut", "recordsIn", "size", "digest", "rawDigest", "bad", "files", "splits", "content", "inputsSha256"]
        )
        file = self.dice.choice(document["files"])
        match field:
            case "files":
                file[self.dice.choice(["records", "size"])] += 1
            case "splits":
                document["splits"][0]["records"] += 1
            case "content":
                document["content"]["limit"] = 7
            case _:
                document[field] = document[field] + 1 if isinstance(document[field], int) else document[field][::-1]
        self._write_manifest(canonical.dumps(document) + b"\n")
        return f"{field} of the manifest edited"

    def a_shard_left_out_of_the_manifest(self) -> str:
        document = json.loads((self.side / "manifest.json").read_bytes())
        left_out = document["files"].pop(self.dice.randrange(len(document["files"])))
        (self.folder / left_out["file"]).unlink()
        self._write_manifest(canonical.dumps(document) + b"\n")
        return f"{left_out['file']} left out of the manifest"

    def _write_manifest(self, content: bytes) -> None:
        (self.side / "manifest.json").write_bytes(content)
        success = json.loads((self.folder / "_SUCCESS").read_bytes())
        (self.folder / "_SUCCESS").write_bytes(canonical.dumps(success | {"sha256": hashlib.sha256(content).hexdigest()}) + b"\n")

    def changed_success(self) -> str:
        return flip(self.folder / "_SUCCESS", self.dice)

    def changed_report(self) -> str:
        return flip(self.dice.choice(sorted(self.side.glob("reports/*.json"))), self.dice)

    def edited_report(self) -> str:
        file = self.dice.choice(sorted(self.side.glob("reports/*.json")))
        document = json.loads(file.read_bytes())
        file.write_bytes(canonical.dumps(document | {"recordsIn": document["recordsIn"] + 1}) + b"\n")
        return f"recordsIn of {file.name} edited"

    def missing_report(self) -> str:
        file = self.dice.choice(sorted(self.side.glob("reports/*.json")))
        file.unlink()
        return f"{file.name} is missing"

    def changed_plan(self) -> str:
        return flip(self.side / self.dice.choice(["plan.json", "units.parquet"]), self.dice)

    def changed_quarantine(self) -> str:
        files = sorted(self.side.glob("quarantine/*"))
        return flip(self.dice.choice(files), self.dice) if files else ""


def flip(file: Path, dice: Random) -> str:
    content = bytearray(file.read_bytes())
    bit = dice.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    return f"bit {bit} of {file.name} flipped"


DAMAGES: Final = [name for name, member in vars(Damage).items() if callable(member) and name[0] != "_" and name != "shard"]
OF_SHARDS: Final = DAMAGES[: DAMAGES.index("changed_companion") + 1]
BESIDE_THEM: Final = DAMAGES[len(OF_SHARDS) :]
FORMATS_EACH: Final = 5


def campaign() -> list[tuple[str, str]]:
    """Return (format, damage) pairs.

    In every format, every kind of damage to shards is tried, and a flipped bit is tried twice. All other kinds of damage are tried in only
    some formats.
    """
    formats = list(CASES)
    of_shards = [(format_, damage) for format_ in formats for damage in (*OF_SHARDS, "flipped_bit")]
    beside = [
        (formats[(number + step * 3) % len(formats)], damage) for number, damage in enumerate(BESIDE_THEM) for step in range(FORMATS_EACH)
    ]
    return of_shards + beside


def test_there_are_200_damages() -> None:
    assert len(campaign()) >= 200


def is_quick(format_: str, damage: str, seed: int) -> bool:
    """Return whether a case is in the quick run.

    For each format, the quick run tests one sixth of the kinds of damage to shards, and one sixth of the other kinds. Damage to companion
    files is always tested, because only a few formats have companion files.
    """
    del seed
    kinds = OF_SHARDS if damage in OF_SHARDS else BESIDE_THEM
    return damage == "changed_companion" or pairs.has_turn(format_, damage, list(CASES), kinds, every=6)


@pytest.mark.slow
@pytest.mark.parametrize(("format_", "damage", "seed"), pairs.chosen(((*each, seed) for seed, each in enumerate(campaign())), is_quick))
def test_every_damage_is_noticed_and_repaired(
    format_: str, damage: str, seed: int, finished: Callable[[str], Path], source: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(finished(format_), tmp_path / "out")
    before = contents(folder)
    damaged = Damage(folder, Random(seed))  # noqa: S311 - must give the same damage each time
    done = getattr(damaged, damage)() or damaged.flipped_bit()
    assert is_noticed(folder), done

    # Without its manifest, a data set doesn't contain the job that made it.
    job = a_job(source, format_, tmp_path / "elsewhere") if "manifest" in damage else None
    repaired = repair(str(folder), Access(), job=job)
    assert contents(folder) == before, done
    assert repaired.shards or repaired.other_faults
    verify(str(folder), Access())


def is_noticed(folder: Path) -> bool:
    try:
        verify(str(folder), Access())
    except (NotWhole, NotFound):
        return True
    return False


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of all files, except those that contain times or the folder's path."""
    files = {str(file.relative_to(folder)): file for file in sorted(folder.rglob("*")) if file.is_file()}
    return {path: file.read_bytes() for path, file in files.items() if "/reports/" not in path and not is_placed(path)}


def is_placed(path: str) -> bool:
    """Return whether a file contains the data set's path. Such a file differs in a repaired copy."""
    return path.startswith("_dataprep/paths/") or path == "_dataprep/input_data_config.json"
