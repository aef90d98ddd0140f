"""Real photographs that ship with scikit-learn and matplotlib, complete and as crops, in one folder per class, with boxes or masks."""

import importlib.util
import xml.etree.ElementTree as ET
from pathlib import Path

from PIL import Image

_PHOTOS = {
    "temple": ("sklearn", "datasets/images/china.jpg"),
    "flower": ("sklearn", "datasets/images/flower.jpg"),
    "admiral": ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
}
_CROPS = 12


def write(folder: Path) -> Path:
    """Three classes of 13 JPEG files each: the original file, byte for byte, and crops of it."""
    for name, (package, path) in _PHOTOS.items():
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"{package} ships the photograph {path}; it is part of requirements/dev.txt")
        original = Path(spec.submodule_search_locations[0]) / path
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        (target / "original.jpg").write_bytes(original.read_bytes())
        with Image.open(original) as photo:
            width, height = photo.size
            for number in range(_CROPS):
                left, top = number * width // 40, number * height // 40
                photo.crop((left, top, left + width // 2, top + height // 2)).save(target / f"crop-{number:02d}.jpg", quality=80 + number)
    return folder


def write_annotated(folder: Path) -> Path:
    """The same files as Data/{train,val}/<class>/*.jpg, each with a box in Annotations/{train,val}/<class>/*.xml, in ImageNet's format."""
    for number, file in enumerate(sorted(write(folder / "plain").glob("*/*.jpg"))):
        below = Path("val" if number % 5 == 0 else "train", file.parent.name, file.name)
        with Image.open(file) as photo:
            annotation = _voc(below, photo.size, file.parent.name)
        for tree, name, content in (("Data", below, file.read_bytes()), ("Annotations", below.with_suffix(".xml"), annotation)):
            target = folder / tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return folder


def write_masked(folder: Path) -> Path:
    """Twelve crops, each with a mask of its brighter half: <name>.jpg, <name>_mask.png."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(write(folder.parent / f"{folder.name}-plain").glob("*/crop-0[0-3].jpg")):
        target = folder / f"{file.parent.name}-{file.name}"
        target.write_bytes(file.read_bytes())
        with Image.open(file) as photo:
            photo.convert("L").point(lambda value: value > 127).save(target.with_name(f"{target.stem}_mask.png"))
    return folder


def _voc(path: Path, size: tuple[int, int], name: str) -> bytes:
    """An annotation with one object, whose box is the middle half of the image."""
    root = ET.Element("annotation")
    ET.SubElement(root, "filename").text = path.name
    sides = ET.SubElement(root, "size")
    each = ET.SubElement(root, "object")
    ET.SubElement(each, "name").text = name
    box = ET.SubElement(each, "bndbox")
    for side, pixels, low, high in (("width", size[0], "xmin", "xmax"), ("height", size[1], "ymin", "ymax")):
        ET.SubElement(sides, side).text = str(pixels)
        ET.SubElement(box, low).text = str(pixels // 4)
        ET.SubElement(box, high).text = str(pixels * 3 // 4)
    whole: bytes = ET.tostring(root)
    return whole
