"""Who may import whom: the table, and the walk that holds the source to it.

Imports point down. A new violation is mended, not added here; a new package gets its line first.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter

import pytest
from source_tree import Import, Module, imports, source

from headgate.usercode.isolation import FRAMEWORK_MODULES

OURS = {
    # room: what of ours it may import besides itself ("" is `headgate/__init__.py`). A room within another
    # one has its own line.
    "common": [],
    "metrics": ["common"],
    "serde": ["common"],
    "records": ["common", "serde"],
    "usercode": ["common"],
    "core": ["common.ids", "common.errors", "common.time", "common.retries", "common.layered"],
    "core.job": ["common.errors", "core.execution", "core.restart_strategies", "core.liveness",
        "core.machine", "core.same_failures"],
    "graph": ["common", "serde", "records", "relational"],
    "relational": ["common"],
    "api": [
        "common", "metrics", "serde", "records", "graph", "relational", "usercode.isolation",
        "usercode.program_code", "usercode.code_release",
],
    "state": ["common", "metrics", "serde", "api.declared", "core.timers"],
    "checkpoint": ["common", "core.checkpoint", "state.snapshots"],
    "restore": ["common", "graph", "core", "api.declared", "api.sink", "api.source", "state", "checkpoint"],
    "ha.contract": ["common.errors"],
    "ha.files": ["common", "checkpoint.storage", "ha.contract"],
    "ha.zookeeper": ["common", "checkpoint.storage", "checkpoint.store", "ha.contract"],
    "ha": [
        "common", "core.leadership", "graph", "checkpoint", "state.snapshots", "restore", "ha.contract",
        "ha.files", "ha.zookeeper",
],
    "runtime.protocol": [
        "common", "metrics", "serde", "records", "core.alignment.barriers", "core.marks", "state.snapshots",
    ],
    "runtime.transport": ["common", "runtime.protocol"],
    "runtime.job": [
        "common", "metrics", "serde", "records", "graph", "core", "api", "state", "checkpoint.storage",
        "runtime.protocol",
    ],
    "runtime.master": [
        "common", "metrics", "graph", "core", "api", "checkpoint", "restore", "runtime.job",
        "runtime.protocol", "runtime.master.attempt", "runtime.master.checkpoints",
],
    "runtime.master.attempt": [
        "common", "metrics", "graph", "core", "api", "state", "restore", "runtime.job", "runtime.protocol",
    ],
    "runtime.master.checkpoints": [
        "common", "metrics", "graph", "core", "api", "state", "checkpoint", "restore", "runtime.job",
        "runtime.protocol", "runtime.master.attempt",
    ],
    "runtime.worker.operators": [
        "common", "metrics", "records", "graph", "core", "api", "state", "checkpoint", "restore",
        "runtime.job",
],
    "runtime.worker.operators.columns": [
        "common", "metrics", "serde", "records", "graph.table_nodes", "core.marks", "api.declared",
        "api.functions", "api.tables.aggregation_state", "api.tables.row_state",
        "state", "relational", "runtime.job", "runtime.worker.operators",
    ],
    "runtime.worker.operators.guarded": [
        "common", "metrics", "serde.codecs.dynamic", "records", "graph.logical", "api",
        "restore.split_watermarks", "state.backend", "state.undo", "runtime.job", "runtime.worker.operators",
    ],
    "runtime.worker.operators.asynchronous": [
        "common", "records", "core", "api", "runtime.job", "runtime.worker.operators",
    ],
    "runtime.worker.operators.windows_of_rows": [
        "common", "metrics", "records", "core", "api", "state", "runtime.job", "runtime.worker.operators",
    ],
    "runtime.worker.exchange": [
        "common", "metrics", "records", "graph", "core.credit", "core.marks", "runtime.job",
        "runtime.protocol", "runtime.transport", "runtime.worker.operators",
],
    "runtime.worker.in_flight": [
        "common", "serde", "records", "graph", "core", "state", "runtime.job", "runtime.protocol",
    ],
    "runtime.worker.snapshot": [
        "common", "records", "core", "state", "checkpoint", "runtime.job", "runtime.protocol",
        "runtime.worker.exchange", "runtime.worker.in_flight", "runtime.worker.operators",
    ],
    "runtime.worker.task": [
        "common", "metrics", "records", "graph", "core", "api", "runtime.job", "runtime.protocol",
        "runtime.worker.exchange", "runtime.worker.in_flight", "runtime.worker.operators",
        "runtime.worker.snapshot",
    ],
    "runtime.worker": [
        "common", "records", "graph", "core", "api", "state", "checkpoint", "runtime.job",
        "runtime.protocol", "runtime.transport", "runtime.worker.exchange", "runtime.worker.in_flight",
        "runtime.worker.operators", "runtime.worker.operators.asynchronous",
        "runtime.worker.operators.columns", "runtime.worker.operators.guarded", "runtime.worker.snapshot",
        "runtime.worker.task",
],
    "display": ["common", "graph", "api.jobs", "api.source", "runtime.job", "runtime.protocol"],
    "runtime.driver.metrics": [
        "common", "metrics", "graph", "core", "runtime.job", "runtime.master", "runtime.protocol",
    ],
    "runtime.driver.lineage": [
        "common", "graph.logical", "graph.physical", "api.sink", "api.source", "runtime.job.listener",
    ],
    "runtime.driver.telemetry": [
        "common", "metrics", "core.checkpoint", "runtime.driver.metrics", "runtime.job.listener",
    ],
    "runtime.driver.endpoint.page": [
        "common", "metrics", "graph", "core", "api", "checkpoint.layout", "display", "runtime.job",
        "runtime.protocol",
    ],
    "runtime.driver.endpoint": [
        "common", "graph", "core", "api", "checkpoint", "runtime.job", "runtime.driver.endpoint.page",
        "runtime.driver.metrics",
    ],
    "runtime.driver": [
        "common", "graph", "core", "api", "state", "checkpoint", "restore", "ha", "display", "runtime.job",
        "runtime.protocol", "runtime.transport", "runtime.master", "runtime.worker",
        "runtime.driver.endpoint", "runtime.driver.lineage", "runtime.driver.metrics",
        "runtime.driver.telemetry",
    ],
    "runtime": ["common.process.logs"],
    "connectors": [
        "common", "serde", "records.late_columns", "api", "relational.casts", "relational.changes",
        "relational.column_tests", "relational.spark_types",
    ],
    "offline": [
        "common", "serde", "records", "graph", "core.marks", "api", "state", "checkpoint", "restore",
        "connectors.quarantine", "runtime",
],
    "deploy": [
        "common", "core", "api", "state", "checkpoint", "restore", "usercode", "runtime", "display",
        "connectors",
],
    "spark": ["common.refusals", "connectors.dataframe.writers", "deploy.spark.session", "stateprocessor"],
    "stateprocessor": ["common", "serde", "api", "state", "checkpoint", "offline"],
    "cli": [
        "common", "api", "graph", "checkpoint", "connectors.quarantine", "display", "offline",
        "stateprocessor", "nexmark",
    ],
    "nexmark": ["common", "api", "connectors.files.paths", "relational.changes", "relational.patterns"],
    "testing": [
        "common", "metrics", "serde", "records", "core", "graph", "api", "state", "checkpoint", "restore",
        "ha", "usercode", "runtime"],
    "": ["common", "api", "records.row", "relational.column_tests", "relational.schema", "spark", "cli.main"],
}  # fmt: skip
CORE_STDLIB = {
    "__future__", "abc", "dataclasses", "enum", "typing", "collections", "heapq", "bisect", "itertools",
    "math",
}  # fmt: skip
"""What the pure core may use: no clock, no chance, no thread, no file."""

SENTENCE = re.compile(r"[.;:?](?:\s|$)")

ONLY_IN = {
    # package of others: the files and folders below src/headgate that may import it
    "pyspark": [
        "deploy/spark/",
        "connectors/dataframe/",
        "stateprocessor/",
        # For type checkers only, see test_import_cost:
        "api/environment.py",
        "api/jobs/executor_contract.py",
        "api/streams/reading_inputs.py",
        "api/streams/stream_outputs.py",
        "api/tables/table_outputs.py",
    ],
    "py4j": ["deploy/spark/", "connectors/dataframe/"],
    "pandas": ["connectors/dataframe/"],
    "polars": ["records/", "runtime/", "connectors/", "relational/functions/"],
    "rocksdict": ["state/rocksdb/"],
    "kazoo": ["ha/zookeeper/kazoo_nodes.py"],
    "confluent_kafka": [],
    "duckdb": ["nexmark/reference.py"],
    "fastavro": ["serde/codecs/avro_schemas.py"],
    "obstore": ["checkpoint/storage/"],
    "google": [],
    "openlineage": ["runtime/driver/lineage/"],
    "yaml": ["runtime/driver/lineage/"],
    "opentelemetry": ["runtime/driver/telemetry/"],
    "starlette": ["runtime/driver/endpoint/"],
    "typer": ["cli/"],
    "uvicorn": ["runtime/driver/endpoint/"],
    "pytest": ["testing/suites/"],
    "hypothesis": ["testing/suites/"],
    "rich": ["cli/", "display/progress_live.py"],
    # Bytes that run code when read: only between authenticated processes of one job, never in a checkpoint.
    "pickle": [
        "serde/codecs/pickled.py",
        "runtime/protocol/",
        "api/checking/shipping_check.py",
        "deploy/spark/",
    ],
    "cloudpickle": [
        "serde/codecs/pickled.py",
        "runtime/protocol/",
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
    "duckdb": "it is optional",
    "fastavro": "it is optional",
    "obstore": "it is optional, and starts threads of its own",
    "hypothesis": "it is for tests that use it",
}
"""What no module may import while it is itself imported."""


def of_package(name: str) -> list[Module]:
    """The files of one package of ours."""
    return [module for module in source() if module.package == name]


def room_of(inside: str) -> str:
    """The innermost room of the table that a file lies in, named by its path below `src/headgate`."""
    folders = inside.split("/")[:-1]
    names = [".".join(folders[:depth]) for depth in range(len(folders), 0, -1)]
    return next((name for name in names if name in OURS), ".".join(folders[:1]))


def in_room(name: str) -> list[Module]:
    """The files of a room, without those of the rooms within it that have lines of their own."""
    return [module for module in source() if room_of(module.inside) == name]


def below(target: str, roots: list[str]) -> bool:
    """Whether a dotted name is one of the roots or inside one."""
    return any(target == root or target.startswith(root + ".") for root in roots)


def room_of_target(target: str) -> str:
    """The innermost room that a dotted name lies in."""
    names = target.split(".")[1:]
    candidates = [".".join(names[:depth]) for depth in range(len(names), 0, -1)]
    return next((name for name in candidates if name in OURS), "")


def ours(module: Module) -> list[Import]:
    """Imports of this project, without those inside the module's own room."""
    found = [item for item in imports(module) if item.target.partition(".")[0] == "headgate"]
    return [item for item in found if room_of_target(item.target) != room_of(module.inside)]


def others(module: Module) -> list[Import]:
    """Imports of everything else."""
    return [item for item in imports(module) if item.target.partition(".")[0] != "headgate"]


def test_every_package_has_its_line_in_the_table() -> None:
    """A package without a line would have no rule, nor a folder within a room of several floors."""
    assert {module.package for module in source()} <= OURS.keys()
    several = {name.rpartition(".")[0] for name in OURS if name.count(".")}
    folders = {module.inside.rpartition("/")[0].replace("/", ".") for module in source()}
    missing = {
        folder
        for folder in folders
        if folder.rpartition(".")[0] in several - {"core"} and not below(folder, list(OURS.keys() - several))
    }
    assert missing - OURS.keys() == set()


@pytest.mark.parametrize("room", sorted(OURS))
def test_imports_point_down(room: str) -> None:
    """A room imports of ours only what its line allows."""
    allowed = [f"headgate.{name}" for name in OURS[room]]
    wrong = [
        f"{item.where} imports {item.target}"
        for module in in_room(room)
        for item in ours(module)
        if not below(item.target, allowed)
    ]
    assert wrong == []


@pytest.mark.parametrize("room", sorted(OURS))
def test_no_line_allows_what_nobody_does(room: str) -> None:
    """What a line allows is there and is imported; else the line would promise what is not so."""
    used = [item.target for module in in_room(room) for item in ours(module)]
    idle = [name for name in OURS[room] if not any(below(target, [f"headgate.{name}"]) for target in used)]
    assert idle == []


FILES_MAX = 25


def test_no_folder_has_more_files_than_a_reader_can_hold() -> None:
    """At most 25 files lie beside each other; a folder that needs more is two rooms."""
    count = Counter(module.inside.rpartition("/")[0] for module in source())
    assert {folder: files for folder, files in count.items() if files > FILES_MAX} == {}


def test_each_folder_says_what_lives_there() -> None:
    """The docstring of a folder's `__init__` says what lives there and what never does, in two sentences."""
    silent = [
        module.inside
        for module in source()
        if module.inside.endswith("/__init__.py")
        and len(SENTENCE.findall(ast.get_docstring(module.tree) or "")) < 2
    ]
    assert silent == []


ROLES = {
    "__init__.py", "backend.py", "effects.py", "errors.py", "gang.py", "generator.py", "handles.py",
    "machine.py", "operator_state.py", "questions.py", "serializer.py", "settings.py", "sink.py",
    "snapshot.py", "snapshots.py", "source.py", "stored_values.py",
}  # fmt: skip
"""Names that mean the same wherever they stand: a backend of state, the effects of a machine, a source."""


FORMER = {"runtime/logs.py", "functions.py"}
"""Names of modules that programs use: a former one, and PySpark's."""


def test_no_two_files_of_one_name_have_different_subjects() -> None:
    """A file's name is met once, but for names of roles."""
    count = Counter(module.inside.rpartition("/")[2] for module in source() if module.inside not in FORMER)
    assert {name for name, files in count.items() if files > 1} - ROLES == set()


def test_packages_that_we_import_are_known_to_isolation() -> None:
    """A program with a module of such a name is isolated, whether the package is installed or not."""
    outside_tests = [module for module in source() if not module.inside.startswith("testing/suites/")]
    tops = {item.target.partition(".")[0] for module in outside_tests for item in others(module)}
    assert tops - sys.stdlib_module_names - {"_typeshed"} - FRAMEWORK_MODULES == set()
    assert FRAMEWORK_MODULES - tops <= {"headgate", *ONLY_IN}


def test_the_table_has_no_cycle() -> None:
    """Following the table downwards always ends."""
    seen: dict[str, int] = {}

    def targets(room: str) -> set[str]:
        found = {room_of_target(f"headgate.{name}") for name in OURS[room]}
        return found - {room, ""}

    def depth(room: str, path: tuple[str, ...]) -> int:
        assert room not in path, f"the table has the cycle {' -> '.join((*path, room))}"
        if room not in seen:
            seen[room] = 1 + max((depth(target, (*path, room)) for target in targets(room)), default=0)
        return seen[room]

    assert max(depth(room, ()) for room in OURS) > 1


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


def test_no_part_of_the_job_master_calls_it_back() -> None:
    """Parts put events into an outbox; a protocol that asks something of a host is not the way."""
    found = {
        node.name
        for module in of_package("runtime")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and (node.name.endswith("Host") or node.name == "Desk")
    }
    assert found == set()
