"""The two releases between which tests upgrade and downgrade.

They are this working copy, and an earlier commit whose sources are in `tests/compat`.

The earlier code runs with this working copy's libraries and Dockerfile. So the two images share all layers except the one with the code,
and a test shows how the code of the two releases works together.
"""

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubecluster import Cluster, build_image
from workbench.installation import CONVERTER_IMAGE, ROOT, TAG

COMMIT: Final = "136670a"
_SOURCES: Final = ROOT / "tests" / "compat" / f"sources-{COMMIT}.tar.xz"
_LIBRARIES: Final = "requirements/converter.txt"


@dataclass(frozen=True)
class Release:
    """The folder with a release's sources and CRDs, and the tag of its converter's image."""

    folder: Path
    tag: str

    @property
    def image(self) -> str:
        """The converter's image."""
        return f"{CONVERTER_IMAGE}:{self.tag}"

    def apply_crds(self, cluster: Cluster) -> None:
        """Apply this release's CRDs as Helm and kubectl do, to install, upgrade or downgrade."""
        cluster.kubectl("apply", "--server-side", "--force-conflicts", f"--filename={self.folder / 'crds'}")


CURRENT: Final = Release(ROOT, TAG)


def load_earlier(cluster: Cluster, folder: Path) -> Release:
    """Unpack the earlier release into the folder, and load its converter's image into the nodes."""
    release, archive = build_earlier(folder)
    cluster.load_image(archive, release.image)
    return release


def build_earlier(folder: Path) -> tuple[Release, Path]:
    """Unpack the earlier release into the folder. Return the release, and the archive of its converter's image."""
    with tarfile.open(_SOURCES) as archive:
        archive.extractall(folder, filter="data")
    (folder / _LIBRARIES).parent.mkdir()
    # Keep the file's time, so that the image build finds the library layer in its cache.
    shutil.copy2(ROOT / _LIBRARIES, folder / _LIBRARIES)
    release = Release(folder, COMMIT)
    inputs = [_LIBRARIES, "api", "converter"]
    return release, build_image(dockerfile=ROOT / "Dockerfile", context=folder, tag=release.image, target="converter", inputs=inputs)
