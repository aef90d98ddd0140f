"""The form of a typical mistake, and the inputs that the tables of mistakes share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

HEAD: Final = "apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: a-job}\nspec:\n"
NUMBERS: Final = "x,y,label\n" + "".join(f"{number},{number}.5,{number % 3}\n" for number in range(12))
CSV: Final = HEAD + "  source: {csv: {uris: [a.csv], header: true}}\n"
OUT: Final = "  output: {uri: out}\n"
IRIS: Final = "width,height,species\n" + "".join(f"{number}.5,{number},{'abc'[number % 3]}\n" for number in range(12))


@dataclass(frozen=True)
class Mistake:
    """A user's mistake, and the command's message about it."""

    name: str
    job: str = ""
    """The content of job.yaml."""
    files: Mapping[str, str | bytes | None] = field(default_factory=dict)
    """The files of the working folder, in addition to a.csv with NUMBERS. None is an empty folder."""
    command: Sequence[str] = ("run", "job.yaml", "--quiet", "--workers", "1")
    options: Sequence[str] = ()
    code: int = 2
    said: str = ""
    """The lines of the error, each without `dataprep: error: ` at its start and the list of known names at its end. `{here}` is the working
    folder."""
