"""Values that don't fit any schema, and the places in an object where a test can put them."""

from typing import Any

from hypothesis import strategies as st


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:  # Any: JSON
    """Return every path within a JSON value, except those that the API server fills in."""
    found = (
        [path] if path and path[:2] not in [("metadata", each) for each in ("namespace", "name", "uid")] and path != ("metadata",) else []
    )
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [each for key, below in inner for each in places(below, (*path, key))]


TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            "²",
            "٣",
            "9" * 5000,
            "0-99999999999",
            "-1",
            "1-",
            "-",
            ",",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59-23:59",
            "\x00",
            "￿",
            "//[",
        ]
    ),
    st.text(max_size=20),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
