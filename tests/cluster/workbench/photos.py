"""Real photographs: those that scikit-learn and matplotlib ship, whole and as crops, in one folder a class."""

import importlib.util
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
