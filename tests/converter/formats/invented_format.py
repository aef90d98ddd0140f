"""An invented format, written as the author of a new format would write it. `test_recipe` adds it to a copy of the source tree.

Each record is a netstring: a length, a colon, a JSON array of the features, and a comma. Example: 18:[[0.5,1],7,"a",0],
"""

from collections.abc import Callable, Mapping
from typing import Final

NAME: Final = "netstrings"

_OPTIONS: Final = '''\
"""Options of the format `netstrings`."""

from dataprep_api.spec.model import Model


class NetstringsOptions(Model):
    """Options of the format `netstrings`."""

    ascii: bool = False
    """Whether letters beyond ASCII are escaped."""
'''
_ENCODER: Final = '''\
"""`netstrings`: a JSON array of the features for each record, with its length before it."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.records.feature import FeatureSpec


class NetstringsEncoder(SingleFile):
    """See the module."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._features = features
        self._ascii = output.netstrings.ascii

    @staticmethod
    def extension(_output: Output) -> str:
        """`netstrings`."""
        return "netstrings"

    @staticmethod
    def holds_null(_output: Output, _feature: FeatureSpec) -> bool:
        """True: a null is `null`."""
        return True

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """One netstring after another."""
        columns = [batch.column(feature.name) for feature in self._features]
        rows = zip(*(getattr(column, "storage", column).to_pylist() for column in columns), strict=True)
        return b"".join(map(self._netstring, rows))

    def close(self) -> bytes:
        """Nothing."""
        return b""

    def _netstring(self, row: Sequence[Any]) -> bytes:
        values = [_json(value, feature) for value, feature in zip(row, self._features, strict=True)]
        content = json.dumps(values, ensure_ascii=self._ascii, separators=(",", ":")).encode()
        return b"%d:%b," % (len(content), content)


def _json(value: Any, feature: FeatureSpec) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list):
        return [_json(each, feature) for each in value]
    if isinstance(value, bytes):
        return value.decode() if feature.text else base64.b64encode(value).decode()
    return value
'''
_DECODER: Final = '''\
"""`netstrings`, back into records."""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.flat_values import flat
from dataprep_converter.formats.pieces import Pieces

_LONGEST = 10


class NetstringsDecoder:
    """A record is the parsed array."""

    def __init__(self, manifest: Manifest) -> None:
        self._features = manifest.features

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, list[Any]]]:
        """Every length and every array is looked at."""
        stream = Pieces(pieces)
        while True:
            offset, head = stream.offset, b""
            while len(head) <= _LONGEST and head[-1:] != b":" and (byte := stream.take(1)):
                head += byte
            if not head:
                return
            if not head[:-1].isdigit() or head[-1:] != b":":
                raise BrokenRecord(f"expected the length of a record, got {head!r}", offset=offset)
            content = stream.take(int(head[:-1]))
            if stream.take(1) != b",":
                raise BrokenRecord("expected a comma behind the record", offset=offset)
            try:
                record = json.loads(content)
            except ValueError as exc:
                raise BrokenRecord(f"not JSON: {exc}", offset=offset) from exc
            if not isinstance(record, list) or len(record) != len(self._features):
                raise BrokenRecord(f"expected an array of {len(self._features)} values", offset=offset)
            yield offset, record

    def parse(self, record: list[Any]) -> dict[str, Any]:
        """The values of the array."""
        return {feature["name"]: _values(value, feature) for value, feature in zip(record, self._features, strict=True)}


def _values(value: Any, feature: dict[str, Any]) -> list[Any]:
    if value is None:
        return []
    values = flat(value, steps=feature["sequence"])
    return values if feature["text"] or feature["dtype"] != "bytes" else _bytes(values)


def _bytes(values: list[Any]) -> list[Any]:
    return [_bytes(value) if isinstance(value, list) else base64.b64decode(value) for value in values]
'''
_ENTRY: Final = """\
    "netstrings": Format(
        encoder=f"{_FORMATS}.text.netstrings_encoder:NetstringsEncoder",
        decoder=f"{_FORMATS}.text.netstrings_decoder:NetstringsDecoder",
    ),
"""
_TESTS: Final = '''\
"""`netstrings`: bytes as the format is written down, and damage."""

import pyarrow as pa
import pytest
from tests.converter.formats.batches import Encoded

from dataprep_converter.core.errors import BrokenRecord


def encoded(**options: bool) -> Encoded:
    return Encoded("netstrings", {"n": pa.array([7, None]), "word": pa.array(["a", "\\u00e4"])}, **options)


def test_a_record_is_its_length_and_an_array() -> None:
    assert encoded().content == '7:[7,"a"],11:[null,"\\u00e4"],'.encode()
    assert encoded(ascii=True).content == b'7:[7,"a"],15:[null,"\\\\u00e4"],'


def test_records_come_back() -> None:
    assert encoded().parsed() == [{"n": [7], "word": [b"a"]}, {"n": [], "word": ["\\u00e4".encode()]}]


@pytest.mark.parametrize("content", [b"7", b"x:[7],", b'7:[7,"a"', b'7:[7,"a"};', b"3:[7],", b"2:[7,"])
def test_damage_is_refused(content: bytes) -> None:
    with pytest.raises(BrokenRecord):
        encoded().parsed(content)
'''
_PAGE: Final = """\
# Format `netstrings`

A record is a JSON array of its features, with its length before it and a comma behind it.
"""


def new(text: str) -> Callable[[str], str]:
    """Return an edit that creates a file, which must not exist yet."""

    def write(before: str) -> str:
        assert not before, "the file is there already"
        return text

    return write


def adding(*places: tuple[str, str]) -> Callable[[str], str]:
    """Return an edit that inserts text before some places in a file. Each place must occur exactly once."""

    def edit(text: str) -> str:
        for place, added in places:
            assert text.count(place) == 1, f"{place!r} is not there once"
            text = text.replace(place, added + place)
        return text

    return edit


def appending(line: str) -> Callable[[str], str]:
    """Return an edit that appends a line to a page."""
    return lambda text: f"{text}\n{line}\n"


_FORMATS: Final = "converter/dataprep_converter/formats"
EDITS: Final[Mapping[str, Callable[[str], str]]] = {
    "api/dataprep_api/formats.py": adding(
        ('    "npz",\n', '    "netstrings",\n'),
        ('    "npz": FormatRules(', '    "netstrings": FormatRules(),\n'),
    ),
    "api/dataprep_api/spec/formats/netstrings.py": new(_OPTIONS),
    "api/dataprep_api/spec/output.py": adding(
        (
            "from dataprep_api.spec.formats.npz import",
            "from dataprep_api.spec.formats.netstrings import NetstringsOptions\n",
        ),
        ("    npz: NpzOptions", '    netstrings: NetstringsOptions = NetstringsOptions()\n    """Options of the format `netstrings`."""\n'),
    ),
    f"{_FORMATS}/text/netstrings_encoder.py": new(_ENCODER),
    f"{_FORMATS}/text/netstrings_decoder.py": new(_DECODER),
    f"{_FORMATS}/registry.py": adding(('    "npz": Format(', _ENTRY)),
    "tests/converter/formats/cases.py": adding(('    "npz": Case(', '    "netstrings": Case(ROWS, EVERYTHING),\n')),
    "tests/converter/formats/test_netstrings.py": new(_TESTS),
    "docs/formats/netstrings.md": new(_PAGE),
    "docs/README.md": appending("[netstrings](formats/netstrings.md)"),
    "docs/guide.md": appending("[netstrings](formats/netstrings.md)"),
    "CHANGELOG.md": appending("- The format `netstrings`."),
}
"""Maps each file to the edit that changes its text."""
