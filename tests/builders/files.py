"""Files in folders."""

from pathlib import Path


def put(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files to their paths below a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def everything(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, by path."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def flip_bit(file: Path, offset: int) -> None:
    """Flip the lowest bit of the byte at an offset."""
    content = bytearray(file.read_bytes())
    content[offset] ^= 1
    file.write_bytes(content)


def visible(folder: Path) -> list[str]:
    """Return the names of all files in a folder except hidden files, which readers of the output don't see."""
    return sorted(file.name for file in folder.iterdir() if file.name[0] not in "_.")
