"""`hash`: replaces personal values with a keyed digest (BLAKE2b, RFC 7693) in hexadecimal."""

import hashlib
import hmac
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from dataprep_api.spec import Transform
from dataprep_api.spec.transforms.columns import Hash
from dataprep_converter.core.arrow_types import is_text_or_bytes
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import Array
from dataprep_converter.records.batch import Batch
from dataprep_converter.records.columns import find_columns

_CONSTANT: Final = b"dataprep hash.keyEnv"


class HashStep:
    """Hashes whole numbers as their decimal text, and text as UTF-8. A missing value stays missing."""

    def __init__(self, options: Hash, schema: pa.Schema) -> None:
        self._size = options.bits // 8
        self._key = _key(options.key_env)
        self._columns = find_columns(options.columns, schema, of="The transform hash")
        self._schema = schema
        for name in self._columns:
            position = schema.get_field_index(name)
            kind = schema.field(position).type
            if not (pa.types.is_integer(kind) or is_text_or_bytes(kind)):
                raise BadSpec(f"The transform hash takes text, bytes or whole numbers, but the column {name!r} is {kind}.")
            self._schema = self._schema.set(position, schema.field(position).with_type(pa.string()))

    def schema(self) -> pa.Schema:
        """Returns the columns, with the named ones as text."""
        return self._schema

    def apply(self, batch: Batch) -> Batch:
        """Hashes the named columns. Each distinct value of the batch is hashed once."""
        records = batch.records
        for name in self._columns:
            position = records.schema.get_field_index(name)
            field = records.schema.field(position).with_type(pa.string())
            records = records.set_column(position, field, _map_values(records.column(name), self._digest))
        return replace(batch, records=records)

    def _digest(self, value: bytes) -> str:
        return hashlib.blake2b(value, digest_size=self._size, key=self._key).hexdigest()


def digests_of_keys(variables: Iterable[str]) -> dict[str, str]:
    """Returns a fingerprint of each variable's key, which shows whether the key has changed. The fingerprint is an HMAC of a constant.

    Raises BadSpec for a variable without a key.
    """
    return {variable: hmac.new(_key(variable), _CONSTANT, hashlib.sha256).hexdigest() for variable in sorted(set(variables))}


def keyed_by(transforms: Iterable[Transform]) -> set[str]:
    """Returns the names of the environment variables that contain the keys of these transforms."""
    return {each.hash.key_env for each in transforms if each.hash is not None and each.hash.key_env is not None}


def _key(variable: str | None) -> bytes:
    if variable is None:
        return b""
    key = os.environ.get(variable, "").encode()
    if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise BadSpec(f"The transform hash needs a key of 1 to 64 bytes in the environment variable {variable}; it has {len(key)} bytes.")
    return key


def _map_values(column: Array, change: Callable[[bytes], str]) -> Array:
    text = column.cast(pa.string()) if pa.types.is_integer(column.type) else column
    coded = text.cast(pa.large_binary()).dictionary_encode()
    values: Any = coded.dictionary.to_pylist()
    new_values: Array = pa.array([change(value) for value in values], pa.string())
    return new_values.take(coded.indices)
