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
    """Images and their objects with boxes, from Pascal VOC XML, COCO JSON or YOLO text.

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
    """Folders or globs of images, in order; within one, by name."""
    annotations: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """One for each of `images`. Voc, Yolo: a folder in which an image's annotation has the image's relative path with another extension. Coco: a JSON file for all images."""
    format: Literal["Voc", "Coco", "Yolo"]
    """How the annotations are written."""
    label: Literal["AllBoxes", "LargestBox", "ClassSet"] = "AllBoxes"
    """`AllBoxes`: lists named as in the TF Object Detection API. `LargestBox`: the class of the object with the largest box. `ClassSet`: the classes in the image, each once, by number."""
    classes: ClassNames | None = None
    """The classes in the order of their numbers. When absent: Voc, every class found, sorted by its UTF-8 bytes; Coco, its categories by id; Yolo, `classNames`."""
    classes_from: SubsetName | None = None
    """For Voc: the subset whose classes these are, such as `train`; a class that only others have is no class then (`unknownClasses`)."""
    class_names: Uri | None = None
    """For Yolo: a file with a class name a line, or a YAML file with `names`."""
    extensions: Extensions = IMAGE_EXTENSIONS
    """Extensions of the images, in lower case; case is ignored. Other files are counted as ignored."""
    subset_from: Literal["FirstFolder", "Root", "None"] = "None"
    """What names the subset, for `splits`: the first folder below the URI (train/a/1.jpg), or the last part of the URI itself."""
    first_pixel: Annotated[int, Field(ge=0, le=1)] = 0
    """For Voc: 1 when pixels count from 1 and a box includes its last one, as in the original VOC sets; 0 takes the numbers as edges."""
    outside_boxes: Literal["Bad", "Clip"] = "Bad"
    """A box that reaches more than half a pixel beyond the image makes the record bad, or is cut at the border."""
    unknown_classes: Literal["Bad", "Ignore"] = "Bad"
    """With `classes` or `classesFrom`: an object of any other class makes the record bad, or is left out."""
    without_objects: Literal["Background", "Bad"] = "Background"
    """An image without an object. `Background`: for LargestBox the number after the last class (0 with `firstLabel: 1`), otherwise empty lists."""
    first_label: Annotated[int, Field(ge=0, le=1)] = 0
    """Number of the first class; the TF Object Detection API wants 1 and keeps 0 for background."""
    missing: Literal["Fail", "BadRecord", "Skip", "Empty"] = "Fail"
    """An image without an annotation, or the reverse, fails the job, is a bad record, or is left out with a warning. `Empty`: such an image has no objects."""

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
