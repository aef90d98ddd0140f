"""The hook that hatchling runs when it builds a wheel or an editable installation. See `build_native.py`."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags


class NativeHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the C libraries. A wheel with C libraries works only on this platform; a wheel without C libraries works on all platforms."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before a build."""
        built = subprocess.run([sys.executable, str(Path(self.root, "converter", "build_native.py"))], check=False)  # noqa: S603
        if built.returncode == 0 and version != "editable":
            build_data["artifacts"].append("libnative-*.so")
            build_data["pure_python"] = False
            # The tag is not a manylinux tag, because the library needs the functions of this machine's C library.
            build_data["tag"] = "py3-none-" + next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
