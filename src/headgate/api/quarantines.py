"""Gives records that are quarantined a place, where the program does not read them itself."""

from __future__ import annotations

from pathlib import Path

from headgate.api.on_error import ERRORS, QUARANTINE_FOLDER, Quarantined, may_quarantine
from headgate.api.program import Program
from headgate.common.errors import PlanError
from headgate.common.files.folder_names import folder_name
from headgate.common.registry import Kind, load
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.graph.logical import NEW, Node, SideOutputNode, SinkNode


def add_quarantines(program: Program, config: Config, job: str, *, runs: bool) -> None:
    """Add a sink of JSON files for each function whose records may be quarantined and that nothing reads. It
    is exactly-once like any. PlanError: there is no folder for them, and the job `runs`, not only planned.
    """
    nodes = program.nodes()
    read = {
        node.inputs[0].id for node in nodes if isinstance(node, SideOutputNode) and node.tag == ERRORS.name
    }
    for node in nodes:
        if may_quarantine(node.on_error) and node.id not in read:
            folder = _folder(config, job, node, runs) / folder_name(node.known_as)
            side = SideOutputNode(
                NEW, f"side output {ERRORS.name}", record_type=Quarantined, tag=ERRORS.name, site=node.site
            )
            sink = load(Kind.CONNECTOR, "json_sink")(str(folder))
            number = program.add(side, (node.id,))
            uid = f"{QUARANTINE_FOLDER}-{node.known_as}"
            program.add(SinkNode(NEW, QUARANTINE_FOLDER, uid=uid, sink=sink, site=node.site), (number,))


def _folder(config: Config, job: str, node: Node, runs: bool) -> Path:
    folder, storage = config.get(o.QUARANTINE_DIRECTORY), config.get(o.CHECKPOINTING_DIR)
    if folder is None and storage is not None:
        scheme, slashes, path = storage.partition("://")
        if not slashes or scheme == "file":
            folder = str(Path(path if slashes else storage) / QUARANTINE_FOLDER)
    if folder is None and runs:
        raise PlanError(
            f"{node.name!r} ({node.site}) may quarantine records, and there is no folder for them; set "
            f"{o.QUARANTINE_DIRECTORY.key}, or read them with side_output(hg.ERRORS)"
        )
    return Path(folder or QUARANTINE_FOLDER) / folder_name(job)  # only planned: nothing is written
