"""What stands beside a data set as JSON: plan, manifest, report and OWNER. Each has a format version, which an older release refuses by name."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from dataprep_api import canonical
from dataprep_api.errors import FormatError
from dataprep_api.spec import Model


class Stored(Model):
    """One of these files. Its version is the lowest that knows all fields that are set, so files that need no newer field have the bytes they always had.

    A new field has a default with the meaning of a file without it, and a line in SINCE.
    """

    FILE: ClassVar[str]
    """What an error calls such a file."""
    SINCE: ClassVar[Mapping[str, int]] = {}
    """The format version that brought each field that the first one didn't have."""
    SAYS_FIRST_VERSION: ClassVar[bool] = True
    """Whether a file of version 1 has the field `version`: reports and OWNER had none."""

    @classmethod
    def newest(cls) -> int:
        """The newest format version that this release knows."""
        return max(cls.SINCE.values(), default=1)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """Raises FormatError for a newer version, before any field of it is looked at."""
        if not isinstance(given, dict) or "version" not in given:
            return given
        version = given["version"]
        if type(version) is not int or version < 1:
            raise ValueError(f"version must be a whole number from 1 on, got {version!r}")
        if version > cls.newest():
            raise FormatError(
                f"the {cls.FILE} has the format version {version}, and this release of dataprep knows versions up to {cls.newest()}. "
                "Use the release that wrote it, or a later one"
            )
        return {name: value for name, value in given.items() if name != "version"}

    def document(self) -> dict[str, Any]:
        """What is written, as JSON values."""
        written = self.model_dump(mode="json", by_alias=True)
        version = 1
        for name, since in self.SINCE.items():
            field = type(self).model_fields[name]
            if getattr(self, name) == field.get_default(call_default_factory=True):
                del written[field.alias or name]
            else:
                version = max(version, since)
        return written | {"version": version} if version > 1 or self.SAYS_FIRST_VERSION else written

    def to_bytes(self) -> bytes:
        """The file's bytes, canonical."""
        return canonical.dumps(self.document())
