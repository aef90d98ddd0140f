"""containerd, which keeps the images and runs the containers of a node."""

import copy
import hashlib
import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from kubecluster.commands import attempt, run
from kubecluster.images import PAUSE_IMAGE

_CONFIGURATION = "containerd.toml"
_OCI: Final = "application/vnd.oci.image"


def root(folder: Path) -> Path:
    """Return the folder in which a node's containerd keeps its images."""
    return folder / "containerd"


def socket(folder: Path) -> Path:
    """Return the socket of a folder's containerd."""
    return folder / "containerd.sock"


def write_configuration(folder: Path, *, network: Path) -> None:
    """Configure a containerd that writes only to this folder. It reads its network configuration from the folder `network`."""
    (folder / _CONFIGURATION).write_text(_configuration(folder, network=network))


def command(folder: Path) -> list[str | Path]:
    """Return the command line of a folder's containerd."""
    return ["containerd", "--config", folder / _CONFIGURATION]


def answers(folder: Path) -> bool:
    """Return whether a folder's containerd responds."""
    return attempt(["ctr", "--address", socket(folder), "version"]).returncode == 0


def import_image(folder: Path, archive: Path, *, name: str) -> None:
    """Unpack an image, given as a docker-archive, under the name that pods use. Layers that containerd already has are not imported again.

    This saves time, because an image shares nearly all layers with its earlier versions and with other images. Otherwise, containerd would
    write and hash the known layers again.
    """
    client = _client(folder)
    known = run([*client, "content", "ls", "--quiet"]).split()
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        changed = Path(temporary) / "changed.tar"
        _write_layout(changed, archive, name=full_image_name(name), without=frozenset(known))
        done = attempt([*client, "images", "import", changed], timeout_seconds=600)
        if done.returncode != 0:
            # containerd might just have removed a layer that no image needed anymore.
            _write_layout(changed, archive, name=full_image_name(name), without=frozenset())
            run([*client, "images", "import", changed], timeout_seconds=600)


def remove_earlier(folder: Path) -> None:
    """Remove the earlier versions of all images, and the layers that no image needs anymore.

    An earlier version has only an id as its name.
    """
    lines = run([*_client(folder), "images", "ls"]).splitlines()[1:]
    digests = {name: digest for name, _, digest, *_ in map(str.split, lines)}
    ids = {name for name in digests if name.startswith("sha256:")}
    current = {digest for name, digest in digests.items() if name not in ids}
    if earlier := sorted(name for name in ids if digests[name] not in current):
        run([*_client(folder), "images", "rm", "--sync", *earlier])


def _client(folder: Path) -> list[str]:
    return ["ctr", "--address", str(socket(folder)), "--namespace", "k8s.io"]


def _write_layout(target: Path, archive: Path, *, name: str, without: frozenset[str]) -> None:
    """Write the image of a docker-archive as an OCI layout. The layout names all layers, but doesn't contain the layers whose digests are
    in `without`.

    A layout:  index.json names the manifest | the manifest names the configuration and the layers | blobs/sha256 holds all three
    """
    with tarfile.open(archive) as given, tarfile.open(target, "w") as layout:
        image = json.loads(_content(given, "manifest.json"))[0]
        configuration = _content(given, image["Config"])
        layers = []
        written = set(without)
        # The layers of a docker-archive are not compressed, so the digests in the configuration are also the blobs' digests.
        for file, digest in zip(image["Layers"], json.loads(configuration)["rootfs"]["diff_ids"], strict=True):
            member = given.getmember(file)
            layers.append({"mediaType": f"{_OCI}.layer.v1.tar", "digest": digest, "size": member.size})
            # An image can have the same layer twice. So rename only a copy of the archive's entry: the entry may be looked up again under
            # its name.
            if digest not in written:
                written.add(digest)
                blob = copy.copy(member)
                blob.name = _blob(digest)
                layout.addfile(blob, given.extractfile(member))
        configured = _add(layout, configuration, media_type=f"{_OCI}.config.v1+json")
        manifest = {"schemaVersion": 2, "mediaType": f"{_OCI}.manifest.v1+json", "config": configured, "layers": layers}
        described = _add(layout, json.dumps(manifest).encode(), media_type=f"{_OCI}.manifest.v1+json")
        index = {"schemaVersion": 2, "manifests": [described | {"annotations": {"io.containerd.image.name": name}}]}
        _add_file(layout, "index.json", json.dumps(index).encode())
        _add_file(layout, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(name)
    if member is None:
        raise FileNotFoundError(f"A docker-archive must have a file {name}; this one has {archive.getnames()}.")
    return member.read()


def _add(layout: tarfile.TarFile, content: bytes, *, media_type: str) -> dict[str, object]:
    """Add a blob, and return its descriptor."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    _add_file(layout, _blob(digest), content)
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _add_file(layout: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    layout.addfile(member, io.BytesIO(content))


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def full_image_name(name: str) -> str:
    """Return the name in kubelet's full form: with registry, repository and tag."""
    registry, slash, _ = name.partition("/")
    has_registry = bool(slash) and ("." in registry or ":" in registry or registry == "localhost")
    if not has_registry:
        name = f"docker.io/{name}" if slash else f"docker.io/library/{name}"
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _configuration(folder: Path, *, network: Path) -> str:
    return f"""\
version = 2
root = "{root(folder)}"
state = "{folder / "state"}"
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{socket(folder)}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  # Without CAP_SYS_RESOURCE runc may not lower a score, and dies of it.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{network}"

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  Root = "{folder / "runc"}"
  SystemdCgroup = false
"""
