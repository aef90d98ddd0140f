"""`source.annotatedImages`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Model, Uri, rule, rules
from dataprep_api.spec.sources.images import IMAGE_EXTENSIONS, ClassNames, Extensions, SubsetName

_PAIRS = "images and annotations must have the same number of entries"
_YOLO = "Yolo files contain only class numbers: set classNames or classes"
_CLASSES_FROM = "classesFrom needs format: Voc and subsetFrom, and can't be combined with classes"
_NAMES = "classNames needs format: Yolo"


class AnnotatedImagesSource(Model):
    """Images with bounding boxes. Annotations are Pascal VOC XML, COCO JSON or YOLO text.

    Columns: `image/encoded`, `image/format`, `image/height`, `image/width`, `image/filename` if a feature uses it, and the columns that
    `label` chooses.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("size(self.images) == size(self.annotations)", _PAIRS, path=".annotations"),
            rule("self.format != 'Yolo' || has(self.classNames) || has(self.classes)", _YOLO),
            rule("self.format == 'Yolo' || !has(self.classNames)", _NAMES, path=".classNames"),
            rule(
                "!has(self.classesFrom) || (self.format == 'Voc' && !has(self.classes) && has(self.subsetFrom) && self.subsetFrom != 'None')",
                _CLASSES_FROM,
                path=".classesFrom",
            ),
        ),
    )

    images: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders or globs. The entries are read in the order of this list. The images of one entry are sorted by name."""
    annotations: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Annotations, one entry per entry of `images`. Voc and Yolo: a folder in which each annotation has the same relative path as its image, except for the extension. Coco: a JSON file for all images."""
    format: Literal["Voc", "Coco", "Yolo"]
    """Annotation format."""
    label: Literal["AllBoxes", "LargestBox", "ClassSet"] = "AllBoxes"
    """Which labels to write. `AllBoxes`: lists of all boxes, with the names of the TF Object Detection API. `LargestBox`: the class of the object with the largest box. `ClassSet`: the classes in the image, each once, sorted by number."""
    classes: ClassNames | None = None
    """Classes, in order of their numbers. Default for Voc: all classes found, sorted by UTF-8 bytes. Default for Coco: its categories, sorted by id. Default for Yolo: `classNames`."""
    classes_from: SubsetName | None = None
    """Voc: subset that defines the classes. Example: `train`. A class that exists only in other subsets is unknown: see `unknownClasses`."""
    class_names: Uri | None = None
    """Yolo: file with class names. The file has one name per line, or it is YAML with the key `names`."""
    extensions: Extensions = IMAGE_EXTENSIONS
    """Image extensions. Write them in lower case. The case of files' extensions is ignored. Files with other extensions are ignored and counted."""
    subset_from: Literal["FirstFolder", "Root", "None"] = "None"
    """Source of subset names. Splits can choose samples by subset. `FirstFolder`: the first folder below the URI, such as `train` in train/a/1.jpg. `Root`: the last part of the URI itself."""
    first_pixel: Annotated[int, Field(ge=0, le=1)] = 0
    """Voc: number of the first pixel. 1: pixels are numbered from 1 and a box includes its last pixel, as in the original VOC data. 0: the numbers are the edges of the box."""
    outside_boxes: Literal["Bad", "Clip"] = "Bad"
    """What happens to boxes beyond the image. If a box extends more than half a pixel beyond the image, the record is bad (`Bad`) or the box is clipped (`Clip`)."""
    unknown_classes: Literal["Bad", "Ignore"] = "Bad"
    """What happens to unknown classes. With `classes` or `classesFrom`, if an object has any other class, the record is bad (`Bad`) or the object is left out (`Ignore`)."""
    without_objects: Literal["Background", "Bad"] = "Background"
    """Label of images without objects. `Background`: with LargestBox, the label is the number after the last class (0 with `firstLabel: 1`); with any other `label`, the lists are empty. `Bad`: the record is bad."""
    first_label: Annotated[int, Field(ge=0, le=1)] = 0
    """Number of the first class. The TF Object Detection API expects 1 and reserves 0 for background."""
    missing: Literal["Fail", "BadRecord", "Skip", "Empty"] = "Fail"
    """What happens to files without a partner. These files are images without an annotation, and annotations without an image. `Fail`: the job fails. `BadRecord`: the record is bad. `Skip`: the file is left out with a warning. `Empty`: an image without an annotation has no objects."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return [*self.images, *self.annotations, *([self.class_names] if self.class_names else [])]

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if len(self.images) != len(self.annotations):
            raise ValueError(f"{_PAIRS}, got {len(self.images)} and {len(self.annotations)}")
        if self.format == "Yolo" and self.class_names is None and self.classes is None:
            raise ValueError(_YOLO)
        if self.format != "Yolo" and self.class_names is not None:
            raise ValueError(_NAMES)
        if self.classes_from is not None and (self.format != "Voc" or self.classes is not None or self.subset_from == "None"):
            raise ValueError(_CLASSES_FROM)
        return self
