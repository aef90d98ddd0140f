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
    """A program of the user's own that writes the data set to `output.uri`."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image with the program. Default: `workers.image`, or the converter's own."""
    framework: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Instead of an image: a short name such as `tensorflow:2.21`, which the chart's `workers.frameworks` maps to one."""
    command: Words
    """The program and its arguments: a list, or one string that is divided by a shell's rules; line breaks are blanks. `${NAME}` is one of `params`, or else a variable of `workers.env`, or one of DATAPREP_INPUT, DATAPREP_OUTPUT, DATAPREP_RUN_ID and DATAPREP_CODE."""
    working_directory: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Where it starts, an absolute path. Default: the folder of `code`, or what the image says."""
    input: Uri | None = None
    """What it reads: `DATAPREP_INPUT` in its environment. Checked before it starts."""
    buckets_argument: bool = False
    """Whether it gets `--buckets=<input>` as its last arguments."""
    checkpoint_dir_argument: bool = False
    """Whether it gets `--checkpointDir=<output.uri>` as its last arguments."""
    outputs: Annotated[list[OutputPath], Field(min_length=1, max_length=256)]
    """Files that must be there when it has ended, below `output.uri`: names or globs (`train-*.tfrecords`). Each must hold data, and of TFRecord and RecordIO files (`output.format`) every record is checked. Nothing else may be there."""

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
