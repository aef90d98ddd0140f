"""Mounts that kubelet and containerd leave behind."""

from pathlib import Path

from kubecluster.commands import attempt


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
