"""Checks of namespaces with real packages, in its own interpreter: prints a JSON object, check -> finding.

    python real_program.py SOURCES FOLDER ENVIRONMENTS

`ENVIRONMENTS` holds a folder of installed packages for the framework and for each of two jobs.
"""

from __future__ import annotations

import http.server
import importlib
import sys
import threading
from pathlib import Path
from typing import Any

ENVIRONMENTS = Path(sys.argv[3])
sys.path.insert(1, str(ENVIRONMENTS / "framework"))

from namespace_checks import FOUND, ROOT, check, tell

from headgate.usercode.loading_errors import ForeignObjectError
from headgate.usercode.namespaces.code import refuse_leaving
from headgate.usercode.namespaces.loader import Namespace
from headgate.usercode.resolution import ParentFirst

DATA_PLANE = ParentFirst(("numpy.", "pandas.", "pyarrow."))

JOBS = ("a", "b")

ATTRS = """
import attr
@attr.s(auto_attribs=True)
class X:
    a: int = 1
def go():
    return attr.__file__, attr.__version__, attr.asdict(attr.evolve(X(), a=3))
"""
REQUESTS = """
import requests, urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry
def go(port):
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", HTTPAdapter(max_retries=Retry(2)))
    said = session.get(f"http://127.0.0.1:{port}/").text
    return said, urllib3.__version__, issubclass(requests.exceptions.ConnectionError, OSError)
"""
PYDANTIC = """
from __future__ import annotations
import typing, pydantic
class Leaf(pydantic.BaseModel):
    n: int
class Tree(pydantic.BaseModel):
    a: int
    leaves: typing.List[Leaf] = []
    next: typing.Optional[Tree] = None
Tree.update_forward_refs() if pydantic.VERSION < "2" else Tree.model_rebuild()
def go():
    tree = Tree(a="3", leaves=[{"n": "4"}], next={"a": 1})
    try:
        Tree(a="x")
        errors = 0
    except pydantic.ValidationError as error:
        errors = len(error.errors())
    return pydantic.VERSION, tree.a, tree.leaves[0].n, tree.next.a, errors
"""
PROTOBUF = """
import google.protobuf
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, timestamp_pb2
file = descriptor_pb2.FileDescriptorProto()
file.name, file.package = "same.proto", "same"
message = file.message_type.add()
message.name = "Message"
field = message.field.add()
field.name, field.number, field.type, field.label = "x", 1, 5, 1
pool = descriptor_pool.Default()
pool.AddSerializedFile(file.SerializeToString())
found = pool.FindMessageTypeByName("same.Message")
try:
    Message = message_factory.GetMessageClass(found)
except AttributeError:
    Message = message_factory.MessageFactory(pool).GetPrototype(found)
def go():
    stamp = timestamp_pb2.Timestamp()
    stamp.FromJsonString("2020-01-01T00:00:00Z")
    again = Message.FromString(Message(x=5).SerializeToString())
    return google.protobuf.__version__, again.x, json_format.MessageToDict(Message(x=2)), stamp.seconds
"""
NUMPY = """
import pickle
import numpy as np
def go():
    a = np.arange(10.0)
    b = pickle.loads(pickle.dumps(a))
    try:
        np.zeros(3) + np.zeros(4)
        raised = False
    except ValueError:
        raised = True
    numbers = float((a.reshape(2, 5) @ a.reshape(5, 2))[0, 0]), float(np.linalg.inv(np.eye(3) * 2)[0, 0])
    drawn = len(np.random.default_rng(1).normal(size=3))
    more = np.fft.fft(a).shape, np.unique(np.array([1, 1, 2])).tolist(), drawn
    masked = int(np.ma.masked_array([1, 2], [0, 1]).sum())
    return np.__version__, type(b) is np.ndarray, raised, numbers, more, masked, float(a.mean())
"""
PANDAS = """
import io, pickle
import numpy as np
import pandas as pd
def go():
    frame = pd.DataFrame({"a": [1, 2, 2], "b": [1.0, 2.0, 3.0], "t": pd.date_range("2020-01-01", periods=3)})
    groups = frame.groupby("a").b.sum().tolist()
    read = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    days = len(frame.set_index("t").resample("D").b.mean())
    frame.to_json()
    again = pickle.loads(pickle.dumps(frame))
    merged = frame.merge(frame, on="a").shape
    return pd.__version__, np.__version__, groups, read.shape, days, type(again) is pd.DataFrame, merged
"""
PYARROW = """
import io
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
def go():
    table = pa.table({"a": np.arange(4), "b": ["x", "y", "z", None]})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    same = pa.ipc.open_stream(out.getvalue()).read_all().equals(table)
    return pa.__version__, type(table.to_pandas()) is pd.DataFrame, pc.sum(table["a"]).as_py(), same
def take(given):
    batch = pa.record_batch(given)
    return batch.num_rows, type(batch) is pa.RecordBatch, pc.sum(batch.column(0)).as_py()
def give():
    return pa.record_batch({"x": pa.array([1, 2, 3])})
"""
SIX = """
import six
from six.moves import urllib
def go():
    return six.__version__, urllib.parse.quote("a b")
"""


class Server(http.server.BaseHTTPRequestHandler):
    """Answers with the caller's name."""

    def do_GET(self) -> None:
        said = self.headers["User-Agent"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def module(namespace: Namespace, name: str, text: str) -> Any:
    """A module of the job's own."""
    folder = ROOT / namespace.name
    (folder / f"{name}.py").write_text(text)
    importlib.invalidate_caches()
    return namespace.import_module(name)


def each(jobs: dict[str, Namespace], name: str, text: str, *args: Any) -> list[Any]:
    """What a module's `go` gives in each job."""
    return [namespace.call(module(namespace, name, text).go, *args) for namespace in jobs.values()]


def firsts(found: list[Any]) -> list[Any]:
    """The versions, where all else is equal in both jobs."""
    return [one[0] for one in found] if found[0][1:] == found[1][1:] else found


def pure(jobs: dict[str, Namespace]) -> None:
    """Packages without compiled parts, or with such as get along."""
    found = each(jobs, "u_attr", ATTRS)
    check("attrs", lambda: [one[1:] for one in found], [("21.4.0", {"a": 3}), ("24.2.0", {"a": 3})])
    check("attrs lie where they should", lambda: ["/a/" in found[0][0], "/b/" in found[1][0]], [True, True])
    check("attrs of the framework", lambda: importlib.import_module("attr").__version__, "23.2.0")
    attrs = [namespace.import_module("attr") for namespace in jobs.values()]
    check(
        "lazy version outside of the boundary",
        lambda: [one.__version__ for one in attrs],
        ["21.4.0", "24.2.0"],
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    check(
        "requests and urllib3",
        lambda: each(jobs, "u_requests", REQUESTS, server.server_port),
        [("python-requests/2.25.1", "1.26.5", True), ("python-requests/2.32.3", "2.2.3", True)],
    )
    check("requests of the framework", lambda: importlib.import_module("requests").__version__, "2.31.0")
    check("six.moves", lambda: firsts(each(jobs, "u_six", SIX)), ["1.15.0", "1.16.0"])
    hooks = [hook for hook in sys.meta_path if "SixMetaPathImporter" in repr(hook)]
    check("hooks of six stay in their namespaces", lambda: len(hooks) <= 1)
    check("pydantic", lambda: firsts(each(jobs, "u_pydantic", PYDANTIC)), ["1.10.13", "2.9.2"])
    check("protobuf", lambda: firsts(each(jobs, "u_protobuf", PROTOBUF)), ["3.20.3", "5.28.3"])


def native(jobs: dict[str, Namespace]) -> None:
    """Packages with compiled parts, side by side."""
    import numpy
    import pandas
    import pyarrow

    check("numpy", lambda: firsts(each(jobs, "u_numpy", NUMPY)), ["1.26.4", "2.1.3"])
    ours = numpy.__version__, float(numpy.arange(3.0).mean())
    check("numpy of the framework", lambda: ours, ("1.26.0", 1.0))
    found = each(jobs, "u_pandas", PANDAS)
    check("pandas", lambda: [one[:2] for one in found], [("2.1.4", "1.26.4"), ("2.2.3", "2.1.3")])
    frame = pandas.DataFrame({"a": [1, 1], "b": [2, 3]})
    check("pandas of the framework", lambda: frame.groupby("a").b.sum().tolist(), [5])
    check("pyarrow", lambda: firsts(each(jobs, "u_pyarrow", PYARROW)), ["20.0.0", "19.0.1"])
    batch = pyarrow.record_batch({"x": pyarrow.array([1, 2, 3])})
    used = {namespace: namespace.import_module("u_pyarrow") for namespace in jobs.values()}
    taken = [namespace.call(module.take, batch) for namespace, module in used.items()]
    check("arrow into the jobs", lambda: taken, [(3, True, 6)] * 2)
    given = [pyarrow.record_batch(namespace.call(module.give)).num_rows for namespace, module in used.items()]
    check("arrow out of the jobs", lambda: given, [3, 3])
    tables = [namespace.call(module.give) for namespace, module in used.items()]
    check("arrow tables leave", lambda: _refused(jobs, tables), [False, False])
    made = [namespace.call(namespace.import_module("numpy").arange, 3) for namespace in jobs.values()]
    check("arrays of the jobs do not leave", lambda: _refused(jobs, made), [True, True])
    check("arrays of the framework leave", lambda: _refused(jobs, [numpy.arange(3)] * 2), [False, False])


def _refused(jobs: dict[str, Namespace], values: list[Any]) -> list[bool]:
    """Whether each job's namespace lets its value not out."""
    found = []
    for namespace, value in zip(jobs.values(), values, strict=True):
        try:
            refuse_leaving(namespace, [value], DATA_PLANE)
        except ForeignObjectError:
            found.append(True)
        else:
            found.append(False)
    return found


def main() -> None:
    """Run all checks."""
    jobs = {}
    for name in JOBS:
        (ROOT / name).mkdir()
        jobs[name] = Namespace(name, [str(ROOT / name), str(ENVIRONMENTS / name)])
    pure(jobs)
    native(jobs)
    tell(FOUND)


if __name__ == "__main__":
    main()
