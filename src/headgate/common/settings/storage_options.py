"""Options of the storage that checkpoints and savepoints lie in."""

from __future__ import annotations

from typing import Final

from headgate.common.files.permissions import Permissions
from headgate.common.settings.config_option import (
    Boolean,
    Choice,
    ConfigOption,
    MemorySize,
    OptionalKind,
    Text,
)

S3_ENDPOINT: Final = ConfigOption[str | None](
    "s3.endpoint",
    OptionalKind(Text()),
    None,
    "URL of the S3 service that s3:// storage lies in; none is AWS_ENDPOINT_URL, or AWS itself.",
)
S3_REGION: Final = ConfigOption[str | None](
    "s3.endpoint.region",
    OptionalKind(Text()),
    None,
    "Region of the bucket; none is AWS_REGION, or us-east-1 where that is unset.",
)
S3_ACCESS_KEY: Final = ConfigOption[str | None](
    "s3.access-key",
    OptionalKind(Text()),
    None,
    "Id of the key for s3:// storage; none takes the AWS_ variables of each process, or its machine's role.",
)
S3_SECRET_KEY: Final = ConfigOption[str | None](
    "s3.secret-key",
    OptionalKind(Text()),
    None,
    "The key that belongs to s3.access-key.",
)
S3_PATH_STYLE: Final = ConfigOption[bool | None](
    "s3.path.style.access",
    OptionalKind(Boolean(), word="unset"),
    None,
    "Whether the bucket is named in the path, not in the host's name; unset is so where s3.endpoint is set.",
)
HDFS_HTTP_ADDRESS: Final = ConfigOption[str | None](
    "dfs.namenode.http-address",
    OptionalKind(Text()),
    None,
    "Address, as host:port, of the HTTP service of HDFS's name node, or several, separated by commas; "
    "none is port 9870 of the host that the hdfs:// URI names.",
)
MEMORY_STATE_MAX: Final = ConfigOption(
    "headgate.storage.memory.max-state-size",
    MemorySize(low_bytes=1024),
    5 * 1024 * 1024,
    "Largest state of one subtask's operator in a checkpoint that goes to memory:// storage.",
)

STORAGE_PERMISSIONS: Final = ConfigOption(
    "headgate.storage.permissions",
    Choice(Permissions),
    Permissions.OWNER,
    "Who may read and write the folders and files that are made for checkpoints, savepoints, staged rows "
    "and the ownership of output: owner is the user of the process alone (700 and 600); group is also the "
    "folder's group (770 and 660), for teams and for executors under another user; umask is what the "
    "process's mask leaves; a folder that existed keeps its mode and group, and secrets and sockets are "
    "always the owner's alone.",
)
