"""`spec.script`: the user's own program writes the data set, and the commit step checks the result."""

import shlex
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import Field, WithJsonSchema, model_validator

from dataprep_api.resources.params import escape_dollars
from dataprep_api.spec.model import Model, Uri

Words = Annotated[
    list[Annotated[str, Field(max_length=4096)]] | str,
    WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True}),
]
"""A list of words, or one string that is split into words by the rules of a shell. No shell is started."""
VARIABLES: Final[Mapping[str, str | None]] = {
    "DATAPREP_INPUT": "input",
    "DATAPREP_OUTPUT": None,
    "DATAPREP_RUN_ID": None,
    "DATAPREP_CODE": "code",
}
"""The environment variables that the program gets in addition to `workers.env`. A variable that is mapped to a field exists only if that field is set."""
OutputPath = Annotated[str, Field(min_length=1, max_length=512)]


class Script(Model):
    """Your own program that writes the data set to `output.uri`."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image with the program. Default: `workers.image`, or else the converter's image."""
    framework: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Short name of an image. Example: `tensorflow:2.21`. The chart's `workers.frameworks` maps the short name to an image. Use this field instead of `image`."""
    command: Words
    """Program and arguments. The command is a list of words or one string. A string is split by the rules of a shell, and line breaks count as blanks. `${NAME}` is replaced with one of `params`, or else with an environment variable. The variables are those in `workers.env`, and DATAPREP_INPUT, DATAPREP_OUTPUT, DATAPREP_RUN_ID and DATAPREP_CODE."""
    working_directory: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Working directory, an absolute path. Default: the folder of `code`, or else the image's working directory."""
    input: Uri | None = None
    """Input URI, passed as `DATAPREP_INPUT`. The input is checked before the program starts."""
    buckets_argument: bool = False
    """Whether to append `--buckets=<input>`."""
    checkpoint_dir_argument: bool = False
    """Whether to append `--checkpointDir=<output.uri>`."""
    outputs: Annotated[list[OutputPath], Field(min_length=1, max_length=256)]
    """Files to expect below `output.uri`. Entries are names, or globs such as `train-*.tfrecords`. When the program has ended, each entry must match existing, non-empty files, and no other files may exist. In TFRecord and RecordIO files (see `output.format`) every record is checked."""

    @model_validator(mode="after")
    def _check_command(self) -> Self:
        if self.image is not None and self.framework is not None:
            raise ValueError("set only one of image and framework")
        if not self.words():
            raise ValueError("command must have at least one word")
        if self.buckets_argument and self.input is None:
            raise ValueError("bucketsArgument needs input")
        if self.working_directory is not None and not self.working_directory.startswith("/"):
            raise ValueError(
                f"workingDirectory must be an absolute path, got {self.working_directory!r}; to choose a folder of the code, set code.git.subPath"
            )
        for path in self.outputs:
            if path.startswith("/") or any(part in ("", ".", "..") or part[0] in "_." for part in path.split("/")):
                raise ValueError(
                    f"outputs must be paths below output.uri, without empty parts or parts that begin with '_' or '.'; got {path!r}"
                )
        return self

    def arguments(self, output_uri: str) -> list[str]:
        """Return all words of the command in a container's syntax: `$(NAME)` is an environment variable, and `$$` is a dollar sign."""
        more = [f"--buckets={escape_dollars(self.input)}"] if self.buckets_argument and self.input is not None else []
        return [*self.words(), *more, *([f"--checkpointDir={escape_dollars(output_uri)}"] if self.checkpoint_dir_argument else [])]

    def words(self) -> list[str]:
        """Return the program and its arguments as a list of words. Raises ValueError for a string with an unclosed quote."""
        if isinstance(self.command, str):
            try:
                return shlex.split(self.command)
            except ValueError as exc:
                raise ValueError(f"command can't be split into words: {exc}") from exc
        return list(self.command)
