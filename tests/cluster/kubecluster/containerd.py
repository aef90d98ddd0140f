"""containerd, which keeps the images and runs the containers of a node."""

import json
import tarfile
from pathlib import Path

from kubecluster.commands import attempt, run
from kubecluster.images import PAUSE_IMAGE

_CONFIGURATION = "containerd.toml"


def root(folder: Path) -> Path:
    """Return where a folder's containerd keeps its images."""
    return folder / "containerd"


def socket(folder: Path) -> Path:
    """Return the socket of a folder's containerd."""
    return folder / "containerd.sock"


def write_configuration(folder: Path, *, network: Path) -> None:
    """Configure a containerd that writes to this folder only; `network` is the folder of its network's configuration."""
    (folder / _CONFIGURATION).write_text(_configuration(folder, network=network))


def command(folder: Path) -> list[str | Path]:
    """Return the command line of a folder's containerd."""
    return ["containerd", "--config", folder / _CONFIGURATION]


def answers(folder: Path) -> bool:
    """Say whether a folder's containerd answers."""
    return attempt(["ctr", "--address", socket(folder), "version"]).returncode == 0


def import_image(folder: Path, archive: Path, *, name: str) -> None:
    """Unpack an image under the name that pods use."""
    client = ["ctr", "--address", str(socket(folder)), "--namespace", "k8s.io"]
    run([*client, "images", "import", archive], timeout_seconds=600)
    imported = {full_image_name(tag) for tag in image_names(archive)}
    if full_image_name(name) not in imported:
        run([*client, "images", "tag", "--force", sorted(imported)[0], full_image_name(name)])


def image_names(archive: Path) -> list[str]:
    """Return the names in a docker-archive."""
    with tarfile.open(archive) as tar:
        member = tar.extractfile("manifest.json")
        if member is None:
            raise FileNotFoundError(f"{archive} has no manifest.json: expected a docker-archive.")
        return [name for image in json.load(member) for name in image["RepoTags"] or []]


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
