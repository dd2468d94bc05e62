"""Who may import whom: the table, and the walk that holds the source to it.

Imports point down. A new violation is mended, not added here; a new package gets its line first.
"""

from __future__ import annotations

import ast
import sys

import pytest
from source_tree import Import, Module, imports, source

from headgate.usercode.isolation import FRAMEWORK_MODULES

OURS = {
    # package: what of ours it may import besides itself ("" is `headgate/__init__.py`)
    "common": [],
    "serde": ["common"],
    "records": ["common", "serde"],
    "metrics": ["common"],
    "core": ["common.ids", "common.errors", "common.time", "common.layered", "serde.compatibility"],
    "graph": ["common", "serde", "records"],
    "api": [
        "common", "serde", "records", "graph", "usercode.errors", "usercode.isolation",
        "usercode.program_code", "usercode.release",
    ],
    "state": ["common", "serde", "records", "metrics", "api.state", "api.operator_state", "core.timers"],
    "checkpoint": ["common", "serde", "metrics", "core.checkpoint", "core.machine", "state.snapshots"],
    "ha": ["common", "checkpoint.store"],
    "usercode": ["common"],
    "runtime": [
        "common", "serde", "records", "metrics", "core", "graph", "state", "checkpoint", "ha", "usercode",
        "api.functions", "api.broadcast", "api.state", "api.operator_state", "api.source", "api.sink",
        "api.time", "api.executor",
    ],
    "connectors": ["common", "serde", "records", "api"],
    "deploy": [
        "common", "serde", "records", "metrics", "core", "graph", "api", "state", "checkpoint", "ha",
        "usercode", "runtime", "connectors",
    ],
    "offline": ["common", "serde", "records", "core", "graph", "api", "state", "checkpoint", "runtime"],
    "spark": ["common.calls", "connectors.dataframe.writers", "deploy.spark.session", "stateprocessor"],
    "stateprocessor": ["common", "serde", "records", "api", "state", "checkpoint", "offline"],
    "cli": [
        "common", "api", "graph", "checkpoint", "state.snapshots", "deploy", "offline", "stateprocessor",
        "runtime.logs", "runtime.progress", "runtime.progress_json", "runtime.progress_status",
    ],
    "testing": [
        "common", "serde", "records", "metrics", "core", "graph", "api", "state", "checkpoint", "ha",
        "usercode", "runtime", "connectors",
    ],
    "": ["common", "api", "records.row", "spark", "cli.main"],
}  # fmt: skip

CORE_STDLIB = {
    "__future__", "abc", "dataclasses", "enum", "typing", "collections", "heapq", "bisect", "itertools",
    "math",
}  # fmt: skip
"""What the pure core may use: no clock, no chance, no thread, no file."""

ONLY_IN = {
    # package of others: the files and folders below src/headgate that may import it
    "pyspark": ["deploy/spark/", "connectors/dataframe/", "stateprocessor/", "metrics/reporters/spark.py"],
    "py4j": ["deploy/spark/", "connectors/dataframe/"],
    "pandas": ["connectors/dataframe/"],
    "polars": ["records/", "runtime/", "connectors/"],
    "rocksdict": ["state/rocksdb/"],
    "kazoo": ["ha/zookeeper/kazoo_nodes.py"],
    "confluent_kafka": ["connectors/kafka/"],
    "fastavro": ["serde/codecs/avro_schemas.py"],
    "obstore": ["checkpoint/storage/"],
    "google": [],
    "starlette": ["runtime/driver/endpoint/"],
    "typer": ["cli/"],
    "uvicorn": ["runtime/driver/endpoint/"],
    "pytest": ["testing/suites/"],
    "hypothesis": ["testing/suites/"],
    "rich": ["cli/", "display/progress_live.py"],
    # Bytes that run code when read: only between authenticated processes of one job, never in a checkpoint.
    "pickle": ["serde/codecs/pickled.py", "runtime/transport/", "api/checking/shipping_check.py", "deploy/spark/"],
    "cloudpickle": [
        "serde/codecs/pickled.py",
        "runtime/transport/",
        "common/process/same_interpreter.py",
        "api/checking/shipping_check.py",
        "deploy/spark/",
    ],
    "marshal": [],
    "shelve": [],
    "dill": [],
}

LAZY = {
    "polars": "it is not fork-safe and must be imported in the worker after the fork",
    "kazoo": "it is optional",
    "rocksdict": "it is optional",
    "confluent_kafka": "it is optional",
    "fastavro": "it is optional",
    "obstore": "it is optional, and starts threads of its own",
    "hypothesis": "it is for tests that use it",
}
"""What no module may import while it is itself imported."""


def of_package(name: str) -> list[Module]:
    """The files of one package of ours."""
    return [module for module in source() if module.package == name]


def below(target: str, roots: list[str]) -> bool:
    """Whether a dotted name is one of the roots or inside one."""
    return any(target == root or target.startswith(root + ".") for root in roots)


def ours(module: Module) -> list[Import]:
    """Imports of this project, without those inside the module's own package."""
    found = [item for item in imports(module) if item.target.partition(".")[0] == "headgate"]
    return [
        item for item in found if not (module.package and below(item.target, [f"headgate.{module.package}"]))
    ]


def others(module: Module) -> list[Import]:
    """Imports of everything else."""
    return [item for item in imports(module) if item.target.partition(".")[0] != "headgate"]


def test_every_package_has_its_line_in_the_table() -> None:
    """A package without a line would have no rule."""
    assert {module.package for module in source()} <= OURS.keys()


@pytest.mark.parametrize("package", sorted(OURS))
def test_imports_point_down(package: str) -> None:
    """A package imports of ours only what its line allows."""
    allowed = [f"headgate.{name}" for name in OURS[package]]
    wrong = [
        f"{item.where} imports {item.target}"
        for module in of_package(package)
        for item in ours(module)
        if not below(item.target, allowed)
    ]
    assert wrong == []


def test_packages_that_we_import_are_known_to_isolation() -> None:
    """A program with a module of such a name is isolated, whether the package is installed or not."""
    outside_tests = [module for module in source() if not module.inside.startswith("testing/suites/")]
    tops = {item.target.partition(".")[0] for module in outside_tests for item in others(module)}
    assert tops - sys.stdlib_module_names - {"_typeshed"} - FRAMEWORK_MODULES == set()
    assert FRAMEWORK_MODULES - tops <= {"headgate", *ONLY_IN}


def test_the_table_has_no_cycle_but_between_leaves() -> None:
    """Following the table downwards always ends."""
    seen: dict[str, int] = {}

    def depth(package: str, path: tuple[str, ...]) -> int:
        assert package not in path, f"the table has the cycle {' -> '.join((*path, package))}"
        if package not in seen:
            targets = {name.partition(".")[0] for name in OURS[package] if not name.startswith("core.")}
            seen[package] = 1 + max((depth(target, (*path, package)) for target in targets), default=0)
        return seen[package]

    assert max(depth(package, ()) for package in OURS) > 1


def test_core_is_pure() -> None:
    """The deciding core imports nothing that acts, waits, reads a clock or draws a number."""
    wrong = [
        f"{item.where} imports {item.target}"
        for module in of_package("core")
        for item in others(module)
        if item.target.partition(".")[0] not in CORE_STDLIB
    ]
    assert wrong == []


def test_connectors_do_not_import_each_other() -> None:
    """A connector's folder stands alone; what two share is a file beside the folders."""
    wrong = []
    for module in of_package("connectors"):
        parts = module.inside.split("/")
        own = f"headgate.connectors.{parts[1]}" if len(parts) > 2 else ""
        folders = [
            f"headgate.connectors.{other.inside.split('/')[1]}"
            for other in of_package("connectors")
            if len(other.inside.split("/")) > 2
        ]
        foreign = [folder for folder in folders if folder != own]
        wrong += [
            f"{item.where} imports {item.target}" for item in imports(module) if below(item.target, foreign)
        ]
    assert wrong == []


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_others_packages_stay_in_their_place(package: str) -> None:
    """A package of others is imported only where the table says."""
    wrong = [
        item.where
        for module in source()
        for item in others(module)
        if below(item.target, [package]) and not module.inside.startswith(tuple(ONLY_IN[package]) or ("-",))
    ]
    assert wrong == []


@pytest.mark.parametrize("package", sorted(LAZY))
def test_some_packages_are_imported_only_when_used(package: str) -> None:
    """What must not be loaded early is imported inside functions."""
    wrong = [
        f"{item.where}: {LAZY[package]}"
        for module in source()
        for item in others(module)
        if below(item.target, [package]) and item.at_import and not module.inside.startswith("state/rocksdb/")
    ]
    assert wrong == []


def test_the_walk_sees_what_it_should() -> None:
    """The import walk tells imports at module level from lazy ones and resolves `from a import b`."""
    text = "import a.b\nfrom c import d\ndef f():\n    import e\nif TYPE_CHECKING:\n    import g\n"
    module = Module("src/headgate/core/x.py", text, ast.parse(text))
    assert [(item.target, item.at_import) for item in imports(module)] == [
        ("a.b", True), ("c.d", True), ("e", False), ("g", False),
    ]  # fmt: skip
    assert module.package == "core"


HOSTS = {"TaskHost", "SnapshotHost", "Desk"}
"""Protocols by which a part still calls its host back: of tasks and of deletions. May only shrink."""


def test_no_part_of_the_job_master_calls_it_back() -> None:
    """Parts put events into an outbox; a protocol that asks something of a host is not the way."""
    found = {
        node.name
        for module in of_package("runtime")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and (node.name.endswith("Host") or node.name == "Desk")
    }
    assert found == HOSTS
