"""`source.images`, and the types that all image sources share."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, NullDefaults, Uri, rule, rules


def _each_once(names: list[str]) -> list[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the class {name!r} is listed twice")
        seen.add(name)
    return names


Extensions = Annotated[list[Annotated[str, Field(pattern=r"^[a-z0-9]{1,8}$", max_length=8)]], Field(min_length=1, max_length=16)]
IMAGE_EXTENSIONS = ["jpg", "jpeg", "png", "bmp", "gif", "tif", "tiff", "webp"]
ClassNames = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=256)]], Field(min_length=1, max_length=4096), AfterValidator(_each_once)
]
SubsetName = Annotated[str, Field(min_length=1, max_length=256)]

_ONE_PLACE = "set exactly one of uris and list"
_FILE_NAME = "labelFrom: FileName and fileName must be set together"
_LIST = "labelFrom: List and list.labelColumn must be set together"
_ORIGINAL = "labelFrom: OriginalUri needs uris of FileBatch zips, not a list"
_CLASSES_FROM = "classesFrom needs subsetFrom and labels that are names, and can't be combined with classes"
_CLASSES = "classes need labels that are names, but labelFrom is None or labelType is Number"


class FileNameLabel(Model):
    """How to find the class in a file's name. Folder names are ignored."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("has(self.split) != has(self.pattern)", "set exactly one of split and pattern")),
    )

    split: Annotated[str, Field(min_length=1, max_length=16)] | None = None
    """Separator between parts of the name. The file name's extension is removed first: `_` divides `cat_img1234.jpg` into `cat` and `img1234`."""
    index: Annotated[int, Field(ge=-64, le=64)] = 0
    """With `split`: the part with the class. Parts are numbered from 0, or from the end with negative numbers: -1 is the last part."""
    pattern: Annotated[str, Field(min_length=1, max_length=512, pattern=r"\(\?P?<label>")] | None = None
    """Regular expression with a group `label`. The expression has RE2 syntax and may match any part of the file name, including the extension. Example: `^(?P<label>[a-z]+)[0-9]+`."""

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if (self.split is None) == (self.pattern is None):
            raise ValueError("set exactly one of split and pattern")
        return self


class ImageList(Model):
    """A file that lists the images, with or without their classes and other columns."""

    uri: Uri
    """URI of the list, plain or compressed."""
    format: Literal["Csv", "Jsonl", "Text", "Parquet"] | None = None
    """Format of the list. `Text` has one path per line. Default: the file's extension decides (`.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.txt`, `.lst`, `.parquet`)."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Csv: cell separator. Default: a comma, or a tab in a `.tsv` file."""
    header: bool = True
    """Csv: whether there is a header. The header is the first line and names the columns."""
    path_column: Column | None = None
    """Column of paths. The column is a name, or a position from 0. Default: the first column of a Csv or Parquet, or the key `path` of a Jsonl."""
    match: Literal["Path", "FileName", "Key"] = "Path"
    """Contents of the path column. `Path`: paths below the root. `FileName`: names of files in any folder below the root. `Key`: such names without their extension."""
    label_column: Column | None = None
    """Column of classes. The column is a name, or a position from 0. It needs `labelFrom: List`."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to add, such as captions or scores. The columns are names, or positions from 0. Their types are determined as in the sources csv, jsonl and parquet."""
    defaults: NullDefaults | None = None
    """Values for nulls in `columns`. The keys are columns. Write the values as in the defaults of the sources csv, jsonl and parquet."""
    root: Uri | None = None
    """Base of relative paths. Default: the folder of the list."""

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if self.format == "Text" and self.columns is not None:
            raise ValueError("a list of format Text has no columns; write it as Csv (its delimiter may be a space) or Jsonl")
        if self.defaults is not None and self.columns is None:
            raise ValueError("defaults need columns, because they replace nulls in these columns")
        return self


class ImagesSource(Model):
    """Image files. The class is the parent folder, a part of the file name, or a value in a list.

    Columns: `image/encoded` (the file's bytes), `image/format`, `image/height`, `image/width`, `image/class/label` (int64),
    `image/class/text`, the columns in `list.columns`, and `image/filename` if a feature uses it.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.uris) != has(self.list)", _ONE_PLACE),
            rule("has(self.fileName) == (has(self.labelFrom) && self.labelFrom == 'FileName')", _FILE_NAME, path=".labelFrom"),
            rule(
                "(has(self.list) && has(self.list.labelColumn)) == (has(self.labelFrom) && self.labelFrom == 'List')",
                _LIST,
                path=".labelFrom",
            ),
            rule("!has(self.list) || !has(self.labelFrom) || self.labelFrom != 'OriginalUri'", _ORIGINAL, path=".labelFrom"),
            rule(
                "!has(self.classes) || !((has(self.labelFrom) && self.labelFrom == 'None')"
                " || (has(self.labelType) && self.labelType == 'Number'))",
                _CLASSES,
                path=".classes",
            ),
            rule(
                "!has(self.classesFrom) || (has(self.subsetFrom) && self.subsetFrom != 'None' && !has(self.classes)"
                " && !(has(self.labelFrom) && self.labelFrom == 'None') && !(has(self.labelType) && self.labelType == 'Number'))",
                _CLASSES_FROM,
                path=".classesFrom",
            ),
        ),
    )

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)] | None = None
    """Folders, globs or files. The entries are read in the order of this list. The files of one entry are sorted by name. The path of a sample is relative to its folder."""
    listed: Annotated[ImageList | None, Field(alias="list")] = None
    """File that lists the images. The list is used instead of `uris`, and images are read in the order of the list."""
    extensions: Extensions = IMAGE_EXTENSIONS
    """File extensions to read. Write them in lower case. The case of files' extensions is ignored. Files with other extensions are ignored and counted. With `list`, the extensions apply only if `list.match` searches for names. Otherwise all listed images are read."""
    recursive: bool = True
    """Whether to search sub-folders."""
    label_from: Literal["ParentFolder", "FileName", "List", "OriginalUri", "None"] = "ParentFolder"
    """Where the class comes from. `OriginalUri`: `uris` name DL4J's FileBatch zips, and the class is the folder that originally contained the image."""
    file_name: FileNameLabel | None = None
    """`labelFrom: FileName` options."""
    label_type: Literal["Name", "Number"] = "Name"
    """Whether labels are names or numbers. `Name`: classes are names and get numbers. `Number`: the text itself is the label, a whole number."""
    classes: ClassNames | None = None
    """Classes, in order of their numbers. A file of another class is an error. Default: all classes found, sorted by UTF-8 bytes."""
    classes_from: SubsetName | None = None
    """Subset that defines the classes. Example: `train`. A file in another subset is an error if its class doesn't exist in this subset."""
    subset_from: Literal["FirstFolder", "Root", "None"] = "None"
    """Source of subset names. Splits can choose samples by subset. `FirstFolder`: the first folder below the URI, such as `train` in train/cat/1.jpg. `Root`: the last part of the URI itself."""
    check: Literal["Header", "None"] = "Header"
    """Whether to check image headers (`Header`). `None`: any bytes are accepted, so no image is bad. With `None`, the columns `image/format`, `image/height` and `image/width` don't exist."""

    def inputs(self) -> list[str]:
        """Return the URIs that are read. The URIs of images in a list are left out, because the list hasn't been read yet."""
        if self.listed is not None:
            return [self.listed.uri, *([self.listed.root] if self.listed.root else [])]
        return [*(self.uris or [])]

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if (self.uris is None) == (self.listed is None):
            raise ValueError(_ONE_PLACE)
        if (self.file_name is not None) != (self.label_from == "FileName"):
            raise ValueError(_FILE_NAME)
        if (self.listed is not None and self.listed.label_column is not None) != (self.label_from == "List"):
            raise ValueError(_LIST)
        if self.listed is not None and self.label_from == "OriginalUri":
            raise ValueError(_ORIGINAL)
        if self.classes is not None and (self.label_from == "None" or self.label_type == "Number"):
            raise ValueError(_CLASSES)
        names = self.label_from != "None" and self.label_type == "Name"
        if self.classes_from is not None and (self.subset_from == "None" or self.classes is not None or not names):
            raise ValueError(_CLASSES_FROM)
        return self
