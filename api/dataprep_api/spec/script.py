"""`spec.script`: the user's own program makes the data set, and the commit step checks what it made."""

import shlex
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import Field, WithJsonSchema, model_validator

from dataprep_api.resources.params import escaped
from dataprep_api.spec.model import Model, Uri

Words = Annotated[
    list[Annotated[str, Field(max_length=4096)]] | str,
    WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True}),
]
"""A list of words, or one string that a shell's rules divide into words. No shell ever runs."""
VARIABLES: Final[Mapping[str, str | None]] = {
    "DATAPREP_INPUT": "input",
    "DATAPREP_OUTPUT": None,
    "DATAPREP_RUN_ID": None,
    "DATAPREP_CODE": "code",
}
"""What the program's environment has beside `workers.env`, and the field without which it isn't there."""
OutputPath = Annotated[str, Field(min_length=1, max_length=512)]


class Script(Model):
    """Your own program that writes the data set to `output.uri`."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image with the program. Default: `workers.image`, or the image of the converter."""
    framework: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Short name of an image: `tensorflow:2.21`. The chart's `workers.frameworks` maps it to an image. Use it instead of `image`."""
    command: Words
    """Program and arguments: a list or a string. A string is split by the rules of a shell, with line breaks as blanks. `${NAME}` is one of `params`, or else a variable of `workers.env`, or DATAPREP_INPUT, DATAPREP_OUTPUT, DATAPREP_RUN_ID or DATAPREP_CODE."""
    working_directory: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Absolute path to start in. Default: the folder of `code`, or that of the image."""
    input: Uri | None = None
    """Input, passed as `DATAPREP_INPUT`. It is checked before the program starts."""
    buckets_argument: bool = False
    """Whether to append `--buckets=<input>`."""
    checkpoint_dir_argument: bool = False
    """Whether to append `--checkpointDir=<output.uri>`."""
    outputs: Annotated[list[OutputPath], Field(min_length=1, max_length=256)]
    """Files to expect below `output.uri`. Names or globs such as `train-*.tfrecords`. When the program has ended, each must exist and hold data, and nothing else may be there. In TFRecord and RecordIO files (see `output.format`) every record is checked."""

    @model_validator(mode="after")
    def _command(self) -> Self:
        if self.image is not None and self.framework is not None:
            raise ValueError("set only one of image and framework")
        if not self.words():
            raise ValueError("command must have at least one word")
        if self.buckets_argument and self.input is None:
            raise ValueError("bucketsArgument needs input")
        if self.working_directory is not None and not self.working_directory.startswith("/"):
            raise ValueError(
                f"workingDirectory must be an absolute path, got {self.working_directory!r}; a folder of the code is code.git.subPath"
            )
        for path in self.outputs:
            if path.startswith("/") or any(part in ("", ".", "..") or part[0] in "_." for part in path.split("/")):
                raise ValueError(f"outputs are paths below output.uri, of which no part begins with _ or ., got {path!r}")
        return self

    def arguments(self, output_uri: str) -> list[str]:
        """All words of the command as a container has them: `$(NAME)` is a variable of its environment, and `$$` a dollar sign."""
        more = [f"--buckets={escaped(self.input)}"] if self.buckets_argument and self.input is not None else []
        return [*self.words(), *more, *([f"--checkpointDir={escaped(output_uri)}"] if self.checkpoint_dir_argument else [])]

    def words(self) -> list[str]:
        """The program and its arguments, one by one. Raises ValueError for a string with an open quote."""
        if isinstance(self.command, str):
            try:
                return shlex.split(self.command)
            except ValueError as exc:
                raise ValueError(f"command can't be divided into words: {exc}") from exc
        return list(self.command)
