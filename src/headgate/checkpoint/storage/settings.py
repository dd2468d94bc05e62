"""How storages other than folders are reached: endpoints, credentials, users."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass, field

from headgate.common.errors import ConfigError
from headgate.common.files.permissions import Permissions, use_permissions
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.common.settings.state_options import STORAGE_PERMISSIONS


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Endpoints, credentials and rights that a storage's URI does not have; picklable, shipped to workers.

    What is None is taken from the environment of the process that opens the storage.
    """

    s3_endpoint: str | None = None  # URL of the S3 service; None is AWS
    s3_region: str | None = None
    s3_access_key: str | None = None
    s3_secret_key: str | None = field(default=None, repr=False)
    s3_path_style: bool | None = None  # bucket in the path, not the host name; None: if there is an endpoint
    hdfs_http_address: str | None = None  # host:port of the name node's HTTP service, several with commas
    hdfs_user: str | None = None
    permissions: Permissions = Permissions.OWNER


def storage_settings(config: Config) -> StorageSettings:
    """Return a job's storage settings, this process's user for HDFS; ConfigError if half a key is set."""
    access, secret = config.get(o.S3_ACCESS_KEY), config.get(o.S3_SECRET_KEY)
    if (access is None) != (secret is None):
        there, missing = (o.S3_SECRET_KEY, o.S3_ACCESS_KEY)[:: 1 if access is None else -1]
        raise ConfigError(
            f"{there.key} is set but {missing.key} is not; set both, or neither to use the environment's"
        )
    return StorageSettings(
        s3_endpoint=config.get(o.S3_ENDPOINT),
        s3_region=config.get(o.S3_REGION),
        s3_access_key=access,
        s3_secret_key=secret,
        s3_path_style=config.get(o.S3_PATH_STYLE),
        hdfs_http_address=config.get(o.HDFS_HTTP_ADDRESS),
        hdfs_user=hdfs_user(),
        permissions=config.get(STORAGE_PERMISSIONS),
    )


def hdfs_user() -> str | None:
    """Return the user for HDFS: that of HADOOP_USER_NAME, else this process's; None if it has no name."""
    try:
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    except (OSError, KeyError):
        return None


_in_use = StorageSettings()


def use_storage_settings(settings: StorageSettings) -> None:
    """Set the settings of storages that this process opens without their own, and the rights of new files.

    For a command or a worker. A driver, which may run several jobs, uses `uris.disks_with` instead.
    """
    global _in_use
    _in_use = settings
    use_permissions(settings.permissions)


def storage_settings_in_use() -> StorageSettings:
    """Return the settings that :func:`use_storage_settings` set last; without a call, defaults."""
    return _in_use
