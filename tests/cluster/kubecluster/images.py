"""Container images without a registry, built by buildah and stored as docker-archive files.

There are four kinds: the pause image that holds a pod's network, written by hand; images of a single program of `binaries`; the base image
with Debian and Python, made by debootstrap; and images from a Dockerfile whose `BASE_IMAGE` argument is that base. All images are cached
under a hash of their inputs.
"""

import fcntl
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kubecluster import binaries
from kubecluster.binaries import cache_dir
from kubecluster.commands import attempt, run
from kubecluster.errors import BuildFailed, StartFailed
from kubecluster.progress import report

PAUSE_IMAGE = "dataprep.test/pause:1"
BUILT_PREFIX = "image"
BASE_SUITE = "bookworm"
BASE_PACKAGES = ("python3", "python3-venv", "python3-pip", "ca-certificates")
# Increase this number when the module builds the base image differently.
BASE_RECIPE = 1
# Each archive takes a few hundred megabytes, and a day of work on the Dockerfile produces dozens of archives.
KEPT_ARCHIVES = 8
MOST_IMAGES = 400
"""The maximum number of images in buildah's store, including images of single Dockerfile steps.

A build of changed code makes about 10 images. Together, they take up to thirty megabytes, because the libraries are in separate layers.
"""
IGNORED_FOLDERS = frozenset({".git", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"})


def pause_image() -> Path:
    """Return the archive of an image whose container only sleeps. All containers of a pod share this container's namespaces."""
    target = _archive("pause", [PAUSE_IMAGE])
    if not target.exists():
        busybox = shutil.which("busybox")
        if busybox is None:
            raise BuildFailed("The pause image is made from a static busybox, but there is no `busybox` on PATH.")
        with _whole(target) as unfinished:
            _write_archive(
                unfinished,
                name=PAUSE_IMAGE,
                files={"bin/busybox": Path(busybox).read_bytes()},
                command=["/bin/busybox", "sleep", "2147483647"],
            )
    return target


def program_image(program: str, *, name: str) -> Path:
    """Return the archive of an image that contains only one program of `binaries`, at `/PROGRAM`."""
    built = binaries.built(program)
    # The program's folder is named by a hash of its inputs.
    target = _archive(program, [name, built.parent.name])
    if not target.exists():
        with _whole(target) as unfinished:
            _write_archive(unfinished, name=name, files={program: built.read_bytes()}, command=[f"/{program}"])
    return target


def base_image() -> str:
    """Return the name, in buildah's store, of an image with Debian and Python. Builds it if necessary."""
    key = _hash([BASE_SUITE, *BASE_PACKAGES, str(BASE_RECIPE), _mirror()])
    name = f"localhost/dataprep-test-base:{key}"
    with _locked("base"):
        if attempt(_buildah("inspect", "--type", "image", name)).returncode != 0:
            _make_base(name)
    return name


def build_image(
    *,
    dockerfile: Path,
    context: Path,
    tag: str,
    target: str | None = None,
    build_args: Mapping[str, str] | None = None,
    inputs: Sequence[str] | None = None,
) -> Path:
    """Build a Dockerfile and return the docker-archive that holds the image.

    `BASE_IMAGE` is the base image unless `build_args` sets it. `inputs` are the files and folders that the image depends on, relative to
    `context`. By default, these are all files except caches. The image is built again only if an input has changed.
    """
    arguments = {"BASE_IMAGE": base_image(), **(build_args or {})}
    named = [part for argument in sorted(arguments.items()) for part in argument]
    archive = _archive(BUILT_PREFIX, [dockerfile.read_text(), target or "", tag, *named, *_digests(context, inputs)])
    with _locked("image"):
        if not archive.exists():
            _build(archive, dockerfile=dockerfile, context=context, tag=tag, target=target, arguments=arguments)
        # The least recently used archives are removed.
        archive.touch()
        _remove_old_archives()
    return archive


def is_cached(archive: Path) -> bool:
    """Return whether an archive is named after a hash of its inputs. Such an archive never changes."""
    return archive.parent == _folder()


def _build(archive: Path, *, dockerfile: Path, context: Path, tag: str, target: str | None, arguments: Mapping[str, str]) -> None:
    report(f"building image {tag}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = _buildah("build", "--layers", "--pull-never", "--file", str(dockerfile), "--tag", tag)
        command += ["--target", target] if target else []
        for name, value in arguments.items():
            command += ["--build-arg", f"{name}={value}"]
        for volume in _volumes(Path(folder)):
            command += ["--volume", volume]
        _buildah_run([*command, str(context)])
        with _whole(archive) as unfinished:
            _buildah_run(_buildah("push", "--quiet", tag, f"docker-archive:{unfinished}:{tag}"))
    if len(run(_buildah("images", "--all", "--quiet")).split()) > MOST_IMAGES:
        # Removes images that no other image depends on. This includes the library layer, so the next build takes two minutes longer.
        _buildah_run(_buildah("rmi", "--prune"))
    report(f"built image {tag} in {time.monotonic() - started:.0f} s")


def _remove_old_archives() -> None:
    archives = sorted(_folder().glob(f"{BUILT_PREFIX}-*.tar"), key=lambda archive: archive.stat().st_mtime)
    for archive in archives[:-KEPT_ARCHIVES]:
        archive.unlink()


def _make_base(name: str) -> None:
    report("making the base image")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_storage()) as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(BASE_PACKAGES)}", BASE_SUITE, str(root), _mirror()]
        _buildah_run(command)
        shutil.rmtree(root / "var/cache/apt", ignore_errors=True)
        run(["tar", "--create", "--numeric-owner", "--one-file-system", "--directory", root, "--file", Path(folder) / "base.tar", "."])
        shutil.rmtree(root)
        dockerfile = Path(folder) / "Dockerfile"
        dockerfile.write_text('FROM scratch\nADD base.tar /\nENV PATH=/usr/local/bin:/usr/bin:/bin\nCMD ["python3"]\n')
        _buildah_run(_buildah("build", "--file", str(dockerfile), "--tag", name, folder))
    report(f"made the base image in {time.monotonic() - started:.0f} s")


def _buildah(*words: str) -> list[str]:
    # The nodes' containerd needs overlayfs as well. With vfs, every step of a Dockerfile copies the complete image, which takes four times
    # as long.
    driver = os.environ.get("STORAGE_DRIVER") or "overlay"
    storage = _storage() / driver
    return ["buildah", "--root", str(storage / "root"), "--runroot", str(storage / "run"), "--storage-driver", driver, *words]


def _buildah_run(command: Sequence[str]) -> None:
    try:
        # buildah's chroot isolation needs neither a container runtime nor a user namespace.
        run(command, environment={"BUILDAH_ISOLATION": "chroot", "TMPDIR": str(_storage())}, timeout_seconds=1800)
    except StartFailed as exc:
        raise BuildFailed(str(exc)) from exc


def _storage() -> Path:
    storage = cache_dir() / "buildah"
    storage.mkdir(parents=True, exist_ok=True)
    return storage


def _mirror() -> str:
    return os.environ.get("DATAPREP_TEST_DEBIAN_MIRROR") or "http://deb.debian.org/debian"


def _volumes(folder: Path) -> Iterator[str]:
    """Mount files into a build, so that pip and apt use the same sources as on this machine. The image doesn't contain these files."""
    certificates = Path("/etc/ssl/certs")
    if certificates.is_dir():
        # The mount is an overlay (`O`), because packages with Java write into this folder. The overlay is discarded, so Java in the image
        # trusts no certificate.
        yield f"{certificates}:{certificates}:O"
    pip_settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    for value in pip_settings.values():
        if value.startswith("/") and Path(value).exists() and not Path(value).is_relative_to(certificates):
            yield f"{value}:{value}:ro"
    pip_configuration = folder / "pip.conf"
    pip_configuration.write_text(_pip_configuration(pip_settings))
    yield f"{pip_configuration}:/etc/pip.conf:ro"


def _pip_configuration(settings: Mapping[str, str]) -> str:
    # Settings are passed in a file, because --env would write this machine's settings into the image.
    machine = Path("/etc/pip.conf")
    text = machine.read_text() if machine.exists() else "[global]\n"
    given = [f"{name.removeprefix('PIP_').lower().replace('_', '-')} = {value}" for name, value in sorted(settings.items())]
    lines = [line for line in text.splitlines() if line.partition("=")[0].strip() not in {one.partition(" =")[0] for one in given}]
    at = lines.index("[global]") + 1 if "[global]" in lines else 0
    return "\n".join([*([] if at else ["[global]"]), *lines[:at], *given, *lines[at:]]) + "\n"


def _digests(context: Path, inputs: Sequence[str] | None) -> Iterator[str]:
    for file in sorted(_files(context, inputs)):
        yield str(file.relative_to(context))
        yield f"{file.stat().st_mode & 0o111:o}"
        yield hashlib.sha256(file.read_bytes()).hexdigest()


def _files(context: Path, inputs: Sequence[str] | None) -> Iterator[Path]:
    for name in inputs if inputs is not None else ["."]:
        given = context / name
        if given.is_file():
            yield given
        for folder, folders, files in os.walk(given):
            folders[:] = [below for below in folders if below not in IGNORED_FOLDERS]
            yield from (Path(folder) / file for file in files if (Path(folder) / file).is_file())


def _write_archive(target: Path, *, name: str, files: Mapping[str, bytes], command: Sequence[str]) -> None:
    """Write a single-layer image.

    A docker-archive:  manifest.json names config.json and the layers | config.json lists the layers' digests | layer.tar holds the files
    """
    layer = _tar({path: (content, 0o755) for path, content in files.items()})
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Cmd": list(command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    parts = {"layer.tar": layer, "config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
    target.write_bytes(_tar({path: (content, 0o644) for path, content in parts.items()}))


def _tar(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (content, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _archive(kind: str, parts: Sequence[str]) -> Path:
    return _folder() / f"{kind}-{_hash(parts)}.tar"


def _folder() -> Path:
    return cache_dir() / "images"


def _hash(parts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """Yield a temporary name to write to, and rename it into place on success."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _locked(name: str) -> Iterator[None]:
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
