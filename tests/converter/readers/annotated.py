"""Writes annotated images for tests. Pascal VOC is written with the standard library's XML writer, COCO with its JSON writer, YOLO by hand."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.builders.files import put
from tests.builders.images import an_image

from dataprep_api.spec import Source

Objects = Sequence[tuple[str, float, float, float, float]]
"""An object's class, xmin, ymin, xmax and ymax, in pixels. Images are 20 x 10 pixels."""


def voc(objects: Objects, *, size: tuple[int, int] | None = (20, 10), **fields: str) -> bytes:
    """A Pascal VOC file for one image. `fields` are added to every object."""
    root = ET.Element("annotation")
    ET.SubElement(root, "filename").text = "x.jpg"
    if size:
        sides = ET.SubElement(root, "size")
        for side, pixels in zip(("width", "height", "depth"), (*size, 3), strict=True):
            ET.SubElement(sides, side).text = str(pixels)
    for name, *edges in objects:
        each = ET.SubElement(root, "object")
        ET.SubElement(each, "name").text = name
        for field, value in fields.items():
            ET.SubElement(each, field).text = value
        box = ET.SubElement(each, "bndbox")
        for edge, number in zip(("xmin", "ymin", "xmax", "ymax"), edges, strict=True):
            ET.SubElement(box, edge).text = str(number)
    whole: bytes = ET.tostring(root)
    return whole


def yolo(objects: Objects, names: Sequence[str]) -> bytes:
    """A YOLO file for one image."""
    lines = (
        f"{names.index(name)} {(x0 + x1) / 40} {(y0 + y1) / 20} {(x1 - x0) / 20} {(y1 - y0) / 10}\n" for name, x0, y0, x1, y1 in objects
    )
    return "".join(lines).encode()


def coco(images: Mapping[str, Objects], names: Sequence[str], **more: Any) -> bytes:
    """A COCO file for all images. Category ids start at 11, and image ids at 100."""
    annotations = [
        {"id": 1000 * image + n, "image_id": 100 + image, "category_id": 11 + names.index(name), "bbox": [x0, y0, x1 - x0, y1 - y0], "iscrowd": 0}
        for image, objects in enumerate(images.values())
        for n, (name, x0, y0, x1, y1) in enumerate(objects)
    ]  # fmt: skip
    document = {
        "info": {"description": "a test", "list": [1, [2]]},
        "licenses": [{"id": 1}],
        "images": [{"id": 100 + n, "file_name": path, "width": 20, "height": 10} for n, path in enumerate(images)],
        "annotations": annotations,
        "categories": [{"id": 11 + n, "name": name} for n, name in enumerate(names)],
    }
    return json.dumps(document | more).encode()


def write(folder: Path, kind: str, images: Mapping[str, Objects], *, names: Sequence[str] = ("dog", "cat"), **options: Any) -> Source:
    """Writes images and annotations to two folder trees in `folder`, and returns a source that reads them."""
    put(folder / "images", {path: an_image() for path in images})
    annotations = folder / "annotations"
    if kind == "Coco":
        annotations = annotations / "instances.json"
        put(folder, {"annotations/instances.json": coco(images, names)})
    elif kind == "Yolo":
        put(folder, {"names.txt": "".join(f"{name}\n" for name in names).encode()})
        put(annotations, {path.rpartition(".")[0] + ".txt": yolo(objects, names) for path, objects in images.items()})
        options = {"classNames": str(folder / "names.txt"), **options}
    else:
        put(annotations, {path.rpartition(".")[0] + ".xml": voc(objects) for path, objects in images.items()})
    return a_source(folder / "images", annotations, kind, **options)


def a_source(images: Path, annotations: Path, kind: str, **options: Any) -> Source:
    whole = {"images": [str(images)], "annotations": [str(annotations)], "format": kind, **options}
    return Source.model_validate({"annotatedImages": whole})
