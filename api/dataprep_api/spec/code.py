"""`spec.code` and the columns that user code declares."""

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, ObjectName, Uri, rule, rules

CALLABLE: Final = r"^([A-Za-z_][A-Za-z0-9_.]*:)?[A-Za-z_][A-Za-z0-9_.-]*$"

Callable = Annotated[str, Field(min_length=1, max_length=256, pattern=CALLABLE)]
"""A function as `module:function`, or the name of an entry point of the group `dataprep.plugins`."""


class Options(Model):
    """Options with arbitrary values, passed to your code by name."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})

    def values(self) -> dict[str, Any]:
        """Return a dict that maps the name of each option to its JSON value."""
        return dict(self.model_extra or {})


class CodeMap(Model):
    """A ConfigMap in the job's namespace. Its keys are the names of Python files."""

    name: ObjectName
    """ConfigMap name."""


class GitSecret(Model):
    """A Secret in the job's namespace."""

    name: ObjectName
    """Secret name."""


_REPOSITORY: Final = "expected http://, https://, git:// or file://, without a user or a token: set secretRef instead"


def _check_repository(url: str) -> str:
    if re.match("(https?|git|file)://", url) is None:
        raise ValueError(_REPOSITORY)
    return url


class Git(Model):
    """A Git repository."""

    # The rule for `url` is on the object and not on the field. If a field broke its own pattern, the API server would print the field's
    # value, which may contain a token.
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("self.url.matches('^(https?|git|file)://') && !self.url.matches('^[a-z]+://[^/]*@')", _REPOSITORY, path=".url")
        )
    )

    url: Annotated[Uri, AfterValidator(_check_repository)]
    """URL of the repository. Example: `https://github.com/team/code.git`."""
    ref: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")] = "HEAD"
    """Branch, tag or commit. Planning resolves the ref once. Every pod checks out the resulting commit, and `status.code.commit` shows it."""
    sub_path: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Folder to use. Default: the whole repository."""
    secret_ref: GitSecret | None = None
    """Secret with `username` and `password`. If you have a token instead of a password, store it as the password."""

    @model_validator(mode="after")
    def _check_sub_path(self) -> Self:
        if self.sub_path is not None and any(part in ("", ".", "..") for part in self.sub_path.split("/")):
            raise ValueError(
                f"subPath must be a folder of the repository, and none of its parts may be empty, . or .., got {self.sub_path!r}"
            )
        return self


class Code(Model):
    """Files that aren't in the image: Python modules for plug-ins, or the program of `spec.script`."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("has(self.configMapRef) != has(self.git)", "set exactly one of configMapRef and git"))
    )

    config_map_ref: CodeMap | None = None
    """ConfigMap with the files. The ConfigMap's keys are file names, such as `reader.py`. For `dataprep run`, the ConfigMap must be in the same YAML file as the job. The content of the ConfigMap is part of the run id."""
    git: Git | None = None
    """Git repository. The commit is part of the run id."""

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if (self.config_map_ref is None) == (self.git is None):
            raise ValueError("set exactly one of configMapRef and git")
        return self


class MadeColumn(Model):
    """A column that user code adds."""

    name: Column
    """Column name."""
    type: Literal["Int64", "Float32", "Float64", "String", "Bytes", "Bool", "UInt8"]
    """Value type."""
    ragged: bool = False
    """Whether values are lists of any length."""
    shape: Annotated[list[Annotated[int, Field(ge=1, le=2**31)]], Field(min_length=1, max_length=8)] | None = None
    """Shape of a record's tensor."""
