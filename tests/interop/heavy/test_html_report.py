"""The HTML report in headless Chromium: it renders in light and in dark mode, and makes no network requests."""

import io
import shutil
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.availability import unavailable
from tests.converter.cli.commandline import code_of, mnist_run

from kubecluster import packages
from workbench import mnist

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
_PACKAGES = {"chromium-headless-shell": "chromium-headless-shell", "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"}


@pytest.fixture(scope="module")
def browser() -> str:
    """Debian's Chromium, installed if possible."""
    if not any(map(shutil.which, BROWSERS)) and packages.installable():
        packages.install(_PACKAGES)
    found = next((path for path in map(shutil.which, BROWSERS) if path is not None), None)
    return found or unavailable("no Chromium is installed: apt-get install chromium-headless-shell")


@pytest.fixture
def asked() -> Iterator[tuple[int, list[bytes]]]:
    """The port of a proxy that never responds, and the first line of each request that it receives."""
    lines: list[bytes] = []

    class Refuses(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            lines.append(self.rfile.readline())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refuses) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], lines
        server.shutdown()
        thread.join()


def drawn(browser: str, page: Path, port: int, *, dark: bool = False) -> Image.Image:
    """A screenshot of the report. All requests except requests for files go to the proxy."""
    shot = page.with_suffix(".png")
    subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
            "--disable-component-update", f"--proxy-server=127.0.0.1:{port}", "--proxy-bypass-list=<-loopback>",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--user-data-dir={page.parent / 'profile'}",
            "--window-size=1240,2000", f"--screenshot={shot}", page.as_uri(),
        ],
        check=True, timeout=120, capture_output=True,
    )  # fmt: skip
    with Image.open(io.BytesIO(shot.read_bytes())) as image:
        return image.convert("RGB")


def test_the_report_renders_and_makes_no_request(browser: str, asked: tuple[int, list[bytes]], tmp_path: Path) -> None:
    source = mnist.write(tmp_path / "digits", train=6000, test=100)
    assert code_of("run", *mnist_run(source, tmp_path / "out"), "--quiet") == 0
    assert code_of("inspect", tmp_path / "out", "--html", tmp_path / "report.html") == 0
    port, lines = asked
    for dark, paper in ((False, (246, 246, 243)), (True, (20, 23, 26))):
        shot = drawn(browser, tmp_path / "report.html", port, dark=dark)
        colors = np.unique(np.asarray(shot).reshape(-1, 3), axis=0)
        assert shot.getpixel((5, 5)) == paper
        assert len(colors) > 300
    assert lines == []


def test_a_page_with_a_request_is_detected(browser: str, asked: tuple[int, list[bytes]], tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<img src="http://data-set.invalid/pixel.png">')
    port, lines = asked
    drawn(browser, tmp_path / "page.html", port)
    assert any(b"data-set.invalid" in line for line in lines)
