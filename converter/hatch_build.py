"""What hatchling does when it builds a wheel, or an editable installation: see `build_native.py`."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags


class NativeHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the loops in C; a wheel with them is for this platform alone, and one without it for all."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See hatchling."""
        built = subprocess.run([sys.executable, str(Path(self.root, "converter", "build_native.py"))], check=False)  # noqa: S603
        if built.returncode == 0 and version != "editable":
            build_data["artifacts"].append("libnative-*.so")
            build_data["pure_python"] = False
            # Not one of the manylinux: what this machine's C library gives is what others need.
            build_data["tag"] = "py3-none-" + next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
