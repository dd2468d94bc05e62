"""Executors run the program's code wherever it came from, also on machines that have none of it."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from machines import Machines, wired
from running import SOURCE, Run, own_session, program, submitted

from proof.standalone import StandaloneCluster

pytestmark = [pytest.mark.ci, pytest.mark.spark, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parent / "programs" / "dependent"
LENGTHS = {"one": 3, "three": 5, "seven": 5, "eleven": 6}


def told(run: Run, said: str) -> set[str]:
    """Places of the modules, of a program that said everything right."""
    lines = run.ended()
    found = {line for line in lines if line.startswith("told ")}
    assert found == {f"told {word} {length} {said}" for word, length in LENGTHS.items()}, lines
    return {place for line in lines if line.startswith("from ") for place in line.split()[1:]}


def test_spark_submit_brings_files_archives_and_artifacts(
    cluster: StandaloneCluster, cluster_folder: Path, tmp_path: Path
) -> None:
    """In client mode, with --py-files, --archives and addArtifact; what is beside the program we bring."""
    (tmp_path / "from_py_files.py").write_text("said = 'hello '\n")
    artifact = tmp_path / "from_artifact.py"
    artifact.write_text("DECORATION = '*'\n")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.write(tmp_path / "from_py_files.py", "from_py_files.py")
    with zipfile.ZipFile(tmp_path / "greeting.zip", "w") as archive:
        archive.writestr("greeting.txt", "world")
    options = ["--py-files", f"{tmp_path}/packed.zip", "--archives", f"{tmp_path}/greeting.zip#words"]
    command = submitted(cluster.url, PROGRAM / "dependent.py", *options)
    with program([*command, str(artifact)]) as run:
        places = told(run, "hello world")
        assert f"decorated {sorted(f'*{word}*' for word in LENGTHS)}" in run.lines
    assert all(place.startswith(str(cluster_folder)) and "headgate-code-" in place for place in places), (
        places
    )


@pytest.fixture
def machines() -> Machines:
    """Needs a kernel that lets us; says why where it does not."""
    try:
        with wired() as made:
            yield made
    except PermissionError as error:
        pytest.skip(f"no second machine here: {error}")


def test_machines_without_any_of_our_code(machines: Machines, tmp_path: Path) -> None:
    """Two machines that lack Headgate and the program exchange records, over the wire between them."""
    here = tmp_path / "on_the_driver_only"
    shutil.copytree(PROGRAM, here)
    (tmp_path / "cluster").mkdir()
    cluster = StandaloneCluster(tmp_path / "cluster", machines.here)
    try:
        for address in (machines.here, machines.there):
            inside = machines.inside([SOURCE, here], there=address == machines.there)
            cluster.start_worker(address, 2, inside)
        cluster.await_workers()
        command = [sys.executable, str(here / "dependent.py"), "-", cluster.url]
        with program(command, machines.here, own_session()) as run:
            places = told(run, "-")
    finally:
        cluster.stop()
    assert {place for place in places if "/worker-1/" in place}
    assert {place for place in places if "/worker-2/" in place}
