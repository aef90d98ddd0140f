"""The tmpfs of the control plane, and mounts that kubelet and containerd leave behind."""

from pathlib import Path

from kubecluster.commands import attempt, run


def below(folder: Path) -> list[Path]:
    """Return the mount points below a folder, the deepest first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # The fifth field is the mount point; a space in it is written \\040.
    points = {Path(line.split()[4].replace("\\040", " ")) for line in lines}
    return sorted((point for point in points if point.is_relative_to(folder)), reverse=True)


def detach_below(folder: Path) -> None:
    """Unmount everything below a folder, even if it is in use."""
    for point in below(folder.resolve()):
        attempt(["umount", "--lazy", point])


def mount_memory(folder: Path, *, megabytes: int) -> None:
    """Mount an empty tmpfs on a folder, creating it if necessary. Memory is used only for what is written."""
    folder.mkdir(parents=True, exist_ok=True)
    run(["mount", "--types=tmpfs", f"--options=size={megabytes}m", "dataprep-test", folder])
