"""`source.annotatedImages`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Model, Uri, rule, rules
from dataprep_api.spec.sources.images import IMAGE_EXTENSIONS, ClassNames, Extensions, SubsetName

_PAIRS = "images and annotations must have as many entries as each other"
_YOLO = "Yolo files hold numbers: give classNames or classes"
_CLASSES_FROM = "classesFrom is for format: Voc without classes, and needs subsetFrom"
_NAMES = "classNames is for format: Yolo"


class AnnotatedImagesSource(Model):
    """Images with bounding boxes. Annotations are Pascal VOC XML, COCO JSON or YOLO text.

    Columns: `image/encoded`, `image/format`, `image/height`, `image/width`, on request `image/filename`, and those of `label`.
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
    """Folders or globs, in order. Within one, images come by name."""
    annotations: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """One entry per entry of `images`. Voc, Yolo: a folder where an annotation has the relative path of its image with another extension. Coco: a JSON file for all images."""
    format: Literal["Voc", "Coco", "Yolo"]
    """Annotation format."""
    label: Literal["AllBoxes", "LargestBox", "ClassSet"] = "AllBoxes"
    """`AllBoxes`, `LargestBox` or `ClassSet`. `AllBoxes`: lists named as in the TF Object Detection API. `LargestBox`: the class of the object with the largest box. `ClassSet`: the classes in the image, each once, by number."""
    classes: ClassNames | None = None
    """Classes, in order of number. Default: for Voc every class found, sorted by UTF-8 bytes; for Coco its categories by id; for Yolo `classNames`."""
    classes_from: SubsetName | None = None
    """Voc: subset that defines the classes. For example `train`. A class that only other subsets have is unknown; see `unknownClasses`."""
    class_names: Uri | None = None
    """Yolo: file with class names. It has a name per line, or is YAML with `names`."""
    extensions: Extensions = IMAGE_EXTENSIONS
    """Image extensions, in lower case. Case is ignored. Files with other extensions are ignored and counted."""
    subset_from: Literal["FirstFolder", "Root", "None"] = "None"
    """What names the subset, for `splits`. `FirstFolder`: the first folder below the URI (train/a/1.jpg). `Root`: the last part of the URI itself."""
    first_pixel: Annotated[int, Field(ge=0, le=1)] = 0
    """Voc: number of the first pixel. 1: pixels count from 1 and a box includes its last pixel, as in the original VOC data. 0: the numbers are edges."""
    outside_boxes: Literal["Bad", "Clip"] = "Bad"
    """Boxes beyond the image. A box that extends more than half a pixel beyond the image makes the record bad, or is clipped."""
    unknown_classes: Literal["Bad", "Ignore"] = "Bad"
    """Objects of unknown classes. With `classes` or `classesFrom`, an object of any other class makes the record bad, or is left out."""
    without_objects: Literal["Background", "Bad"] = "Background"
    """Images without objects. `Background`: for LargestBox the number after the last class (0 with `firstLabel: 1`), otherwise empty lists."""
    first_label: Annotated[int, Field(ge=0, le=1)] = 0
    """Number of the first class. The TF Object Detection API expects 1 and reserves 0 for background."""
    missing: Literal["Fail", "BadRecord", "Skip", "Empty"] = "Fail"
    """Images without annotation, or the reverse. The job fails, the record is bad, or the file is left out with a warning. `Empty`: such an image has no objects."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return [*self.images, *self.annotations, *([self.class_names] if self.class_names else [])]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.images) != len(self.annotations):
            raise ValueError(f"{_PAIRS}, got {len(self.images)} and {len(self.annotations)}")
        if self.format == "Yolo" and self.class_names is None and self.classes is None:
            raise ValueError(_YOLO)
        if self.format != "Yolo" and self.class_names is not None:
            raise ValueError(_NAMES)
        if self.classes_from is not None and (self.format != "Voc" or self.classes is not None or self.subset_from == "None"):
            raise ValueError(_CLASSES_FROM)
        return self
