"""Runs cells in a real notebook kernel, in this folder, and says what each of them showed.

    python kernel_runner.py CELLS.json

The file is a list of texts; a cell that begins with `# stop after N s` is interrupted then. What is printed
is one JSON object per cell: `status` ("ok" or "error"), `streams` (what it wrote to each), `shown` (its
displays and its result as they stood at the end, by type), `updates` (how often a display was drawn
anew) and `traceback` (as the notebook shows it).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

CELL_S = 120


def run(kernel: KernelManager, client: BlockingKernelClient, code: str) -> dict[str, Any]:
    """Run a cell to its end, or to its interruption; what it showed."""
    stop = re.match(r"# stop after (\d+) s", code)
    if stop is not None:
        threading.Timer(int(stop[1]), kernel.interrupt_kernel).start()
    streams: dict[str, str] = {}
    shown: dict[str, dict[str, str]] = {}
    updates, traceback = 0, ""

    def output(message: dict[str, Any]) -> None:
        nonlocal updates, traceback
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            streams[content["name"]] = streams.get(content["name"], "") + content["text"]
        elif kind in ("display_data", "update_display_data", "execute_result"):
            name = content.get("transient", {}).get("display_id") or f"output {len(shown)}"
            updates += kind == "update_display_data"
            shown[name] = content["data"]
        elif kind == "error":
            traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(content["traceback"]))

    reply = client.execute_interactive(code, output_hook=output, timeout=CELL_S)
    status = reply["content"]["status"]
    return {
        "status": status,
        "streams": streams,
        "shown": list(shown.values()),
        "updates": updates,
        "traceback": traceback,
    }


def made(folder: Path) -> KernelManager:
    """A kernel of this interpreter; it opens no port."""
    (folder / "this").mkdir()
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "this", "language": "python"}
    (folder / "this" / "kernel.json").write_text(json.dumps(spec))
    specs = KernelSpecManager(kernel_dirs=[str(folder)])
    return KernelManager(
        kernel_name="this",
        kernel_spec_manager=specs,
        connection_file=str(folder / "connection.json"),
        transport="ipc",
        ip=str(folder / "kernel"),
    )


def main() -> None:
    """The program."""
    cells = json.loads(Path(sys.argv[1]).read_text())
    with tempfile.TemporaryDirectory(prefix="headgate-kernel-") as folder:
        kernel = made(Path(folder))
        kernel.start_kernel(stdin=subprocess.DEVNULL, stdout=sys.stderr)
        client = kernel.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=CELL_S)
            for cell in cells:
                print(json.dumps(run(kernel, client, cell)), flush=True)
            kernel.shutdown_kernel()
        finally:
            client.stop_channels()
            if kernel.is_alive():
                kernel.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
