from typing import Any

import pyarrow as pa
import pytest

from dataprep_converter.core import arrow_types

_arrow: Any = pa  # the stubs lack some types
TEXTS = [pa.string(), pa.large_string()]
BYTES = [pa.binary(), pa.large_binary()]
TEXT_VIEW = _arrow.string_view()
OTHER_BYTES = [_arrow.binary_view(), pa.binary(4)]
OTHERS = [pa.null(), pa.int64(), pa.bool_(), pa.list_(pa.string()), pa.dictionary(pa.int32(), pa.string()), pa.struct([("a", pa.binary())])]


@pytest.mark.parametrize(
    ("check", "accepted"),
    [
        (arrow_types.is_text, TEXTS),
        (arrow_types.is_bytes, BYTES),
        (arrow_types.is_text_or_bytes, [*TEXTS, *BYTES]),
        (arrow_types.is_any_text, [*TEXTS, TEXT_VIEW]),
        (arrow_types.is_any_bytes, [*BYTES, *OTHER_BYTES]),
    ],
)
def test_types_of_texts_and_bytes_are_recognised(check: Any, accepted: list[Any]) -> None:
    every = [*TEXTS, *BYTES, TEXT_VIEW, *OTHER_BYTES, *OTHERS]
    assert [kind for kind in every if check(kind)] == accepted


def test_the_type_of_a_dictionarys_values_is_told() -> None:
    assert arrow_types.without_dictionary(pa.dictionary(pa.int8(), pa.large_string())) == pa.large_string()


def test_another_type_than_a_dictionary_is_unchanged() -> None:
    assert arrow_types.without_dictionary(pa.list_(pa.string())) == pa.list_(pa.string())
