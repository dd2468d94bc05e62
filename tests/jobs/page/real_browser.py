"""A real Chromium for tests, from package registries alone and without root.

`HEADGATE_TEST_BROWSER` names a Chromium; else an installed one is taken; else the npm package below, which
carries a whole headless Chromium, the libraries that a bare machine lacks, and one font. It is fetched with
`npm pack`, checked, and unpacked into a cache of the user's; no script of a package runs.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = (
    "@sparticuz/chromium",
    "147.0.0",  # the last one whose package allows Node 20
    "4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ==",
)
AXE = (
    "axe-core",
    "4.14.1",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)
"""Name, version and sha512 of an npm package."""

INSTALLED = ("chromium", "chromium-browser", "chrome-headless-shell", "google-chrome", "google-chrome-stable")
FETCH_S = 300
START_MS = 90_000
FLAGS = (
    # As root, and in most containers, there is no sandbox to be had. A test opens its own page only.
    "--no-sandbox",
    # /dev/shm is small in containers.
    "--disable-dev-shm-usage",
    "--disable-gpu",
    # The same picture on every machine.
    "--font-render-hinting=none",
    "--force-device-scale-factor=1",
    # Under the locale C the language would be "en-US@posix", which `Intl` refuses.
    "--lang=en-US",
)


class NoBrowserError(Exception):
    """There is none, and none can be had; the text says what to do."""


def cache() -> Path:
    """Where what was fetched is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "headgate-tests"


def axe() -> str:
    """The source of axe-core, which looks for what keeps people from using a page."""
    folder = cache() / f"axe-{AXE[1]}"
    if not (folder / "complete").exists():
        _unpacked(AXE, folder, lambda package, made: shutil.copy(package / "axe.min.js", made))
    return (folder / "axe.min.js").read_text(encoding="utf-8")


def program() -> tuple[Path, dict[str, str]]:
    """The browser's program, and what its environment needs beyond the present one."""
    if named := os.environ.get("HEADGATE_TEST_BROWSER"):
        if not os.access(named, os.X_OK):
            raise NoBrowserError(f"HEADGATE_TEST_BROWSER names {named!r}, which is no program")
        return Path(named), {}
    for name in INSTALLED:
        if path := shutil.which(name):
            return Path(path), {}
    folder = cache() / f"chromium-{CHROMIUM[1]}"
    if not (folder / "complete").exists():
        _unpacked(CHROMIUM, folder, lambda package, made: _chromium(package / "bin", made, folder))
    return folder / "chromium", _environment(folder)


@contextlib.contextmanager
def opened() -> Iterator[Any]:
    """A browser of Playwright, which ends with the block; NoBrowserError if there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoBrowserError("the package playwright is not installed; `make setup` installs it") from None
    path, environment = program()
    variables = {**os.environ, "LANGUAGE": "en_US", "LC_ALL": "en_US.UTF-8", **environment}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(path), args=list(FLAGS), timeout=START_MS, env=variables
        )
        try:
            yield browser
        finally:
            browser.close()


def _unpacked(wanted: tuple[str, str, str], folder: Path, unpack: Any) -> None:
    # In a folder of its own that is renamed: two runs of tests may do it at once.
    name, version, sha512 = wanted
    if shutil.which("npm") is None:
        raise NoBrowserError(f"there is no npm to fetch {name}; install one, or set HEADGATE_TEST_BROWSER")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = ["npm", "pack", f"{name}@{version}", "--silent", "--pack-destination", scratch]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_S, cwd=scratch, check=False
        )
        packed = list(Path(scratch).glob("*.tgz"))
        if done.returncode or not packed:
            raise NoBrowserError(f"`npm pack {name}@{version}` failed: {done.stderr.strip()[-400:]}")
        if base64.b64encode(hashlib.sha512(packed[0].read_bytes()).digest()).decode() != sha512:
            raise NoBrowserError(f"{name} {version} is not what it was when its sum was written down")
        _untar(packed[0], Path(scratch))
        made = Path(scratch) / "made"
        made.mkdir()
        unpack(Path(scratch) / "package", made)
        (made / "complete").touch()
        with contextlib.suppress(OSError):  # another run was first
            made.rename(folder)


def _chromium(packed: Path, made: Path, folder: Path) -> None:
    _unbrotli(packed, made)
    for name in ("al2023", "fonts", "swiftshader"):
        _untar(made / f"{name}.tar", made)
        (made / f"{name}.tar").unlink()
    (made / "chromium").chmod(0o755)
    (made / "fontcache").mkdir()
    (made / "fonts.conf").write_text(
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
        f"<dir>{folder}/fonts</dir><cachedir>{folder}/fontcache</cachedir></fontconfig>"
    )


def _untar(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as members:
        for member in members:
            path = (target / member.name).resolve()
            if member.isfile() and path.is_relative_to(target.resolve()):
                path.parent.mkdir(parents=True, exist_ok=True)
                data = members.extractfile(member)
                assert data is not None
                path.write_bytes(data.read())


def _unbrotli(source: Path, target: Path) -> None:
    # By the Node that Playwright brings along.
    from playwright._impl._driver import compute_driver_executable

    script = """
const fs = require("fs"), zlib = require("zlib"), [from, to] = process.argv.slice(1);
for (const name of ["chromium", "fonts.tar", "swiftshader.tar", "al2023.tar"])
  fs.writeFileSync(`${to}/${name}`, zlib.brotliDecompressSync(fs.readFileSync(`${from}/${name}.br`)));
"""
    node = compute_driver_executable()[0]
    subprocess.run([node, "-e", script, str(source), str(target)], check=True, timeout=FETCH_S)


def _environment(folder: Path) -> dict[str, str]:
    needed = {"FONTCONFIG_FILE": str(folder / "fonts.conf")}
    told = subprocess.run(["ldd", str(folder / "chromium")], capture_output=True, text=True, check=False)
    if "not found" in told.stdout:
        before = os.environ.get("LD_LIBRARY_PATH")
        needed["LD_LIBRARY_PATH"] = f"{folder / 'lib'}{os.pathsep + before if before else ''}"
    return needed
