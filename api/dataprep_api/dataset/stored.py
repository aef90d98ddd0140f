"""The JSON files of a data set: plan, manifest, report and OWNER.

Each file has a format version, and a release refuses files whose version is newer than the release supports.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, model_validator

from dataprep_api import canonical
from dataprep_api.errors import FormatError
from dataprep_api.spec import Model


class Versioned(Model):
    """A stored file, or a part of a stored file.

    A new field needs an entry in SINCE, and a default that describes files without the field.
    """

    SINCE: ClassVar[Mapping[str, int]] = {}
    """Maps each field added later to the format version in which it was added."""


class StoredDocument(Versioned):
    """A stored file. A file's version is the lowest format version that supports all of the file's fields. Therefore a file without newer
    fields keeps the same bytes in all releases.

    The fields of nested parts also determine the version. Parts with newer fields are subclasses of Versioned.
    """

    FILE: ClassVar[str]
    """The name of this kind of file in error messages."""
    SAYS_FIRST_VERSION: ClassVar[bool] = True
    """Whether a file of version 1 contains the field `version`. In version 1, reports and OWNER don't contain the field."""

    @classmethod
    def newest(cls) -> int:
        """Return the newest format version that this release supports."""
        return _newest(cls)

    @model_validator(mode="before")
    @classmethod
    def _check_version(cls, content: Any) -> Any:
        """Raise FormatError for a file with a newer version, before the file's fields are validated."""
        if not isinstance(content, dict) or "version" not in content:
            return content
        version = content["version"]
        if type(version) is not int or version < 1:
            raise ValueError(f"version must be a whole number of at least 1, got {version!r}")
        if version > cls.newest():
            raise FormatError(
                f"the {cls.FILE} has the format version {version}, and this release of dataprep supports versions up to {cls.newest()}. "
                "Use the release that wrote the file, or a later release"
            )
        return {name: value for name, value in content.items() if name != "version"}

    def document(self) -> dict[str, Any]:
        """Return the content of the file, as JSON values."""
        serialised = self.model_dump(mode="json", by_alias=True)
        version = _drop_newer_defaults(self, serialised)
        return serialised | {"version": version} if version > 1 or self.SAYS_FIRST_VERSION else serialised

    def to_bytes(self) -> bytes:
        """Serialise the file as canonical JSON."""
        return canonical.dumps(self.document())


def _drop_newer_defaults(value: Any, serialised: Any) -> int:  # Any, because fields have many types
    """Remove newer fields with default values from `serialised`. Returns the lowest version that supports all remaining fields."""
    if isinstance(value, list | tuple):
        return max(map(_drop_newer_defaults, value, serialised), default=1)
    if isinstance(value, dict):
        return max(map(_drop_newer_defaults, value.values(), serialised.values()), default=1)
    if not isinstance(value, BaseModel):
        return 1
    version = 1
    kind = type(value)
    for name, since in _since(kind).items():
        field = kind.model_fields[name]
        if getattr(value, name) == field.get_default(call_default_factory=True):
            del serialised[field.alias or name]
        else:
            version = max(version, since)
    nested = [(name, field.alias or name) for name, field in kind.model_fields.items() if name in _with_newer_parts(kind)]
    return max([version, *(_drop_newer_defaults(getattr(value, name), serialised[alias]) for name, alias in nested if alias in serialised)])


def _since(kind: type[BaseModel]) -> Mapping[str, int]:
    return kind.SINCE if issubclass(kind, Versioned) else {}


@cache
def _newest(kind: type[BaseModel]) -> int:
    """Return the newest version in which a field of this model or of its parts was introduced."""
    parts = [part for field in kind.model_fields.values() for part in _parts(field.annotation)]
    return max([1, *_since(kind).values(), *map(_newest, parts)])


@cache
def _with_newer_parts(kind: type[BaseModel]) -> frozenset[str]:
    """Return the names of the fields whose models, nested ones included, have fields added after version 1.

    Only these fields need to be searched, which saves time for files with thousands of parts.
    """
    return frozenset(name for name, field in kind.model_fields.items() if any(_newest(part) > 1 for part in _parts(field.annotation)))


def _parts(annotation: Any) -> Iterator[type[BaseModel]]:  # Any, because type annotations have no common type
    """Yield the model classes within a field's type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)
