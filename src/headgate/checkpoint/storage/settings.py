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
    """What a storage URI does not say; picklable, and shipped to the workers.

    What is None is taken from the environment of the process that opens the storage.

    Attributes:
        s3_endpoint: URL of the S3 service; None is AWS.
        s3_secret_key: the key; never shown.
        s3_path_style: whether the bucket is part of the path and not of the host's name; None is so for
            an endpoint of one's own.
        hdfs_http_address: host:port of the name node's HTTP service, several separated by commas.
        hdfs_user: who writes.

    Example:
        >>> StorageSettings(s3_access_key="AKIA1", s3_secret_key="hidden").s3_secret_key in repr(
        ...     StorageSettings(s3_access_key="AKIA1", s3_secret_key="hidden"))
        False
    """

    s3_endpoint: str | None = None
    s3_region: str | None = None
    s3_access_key: str | None = None
    s3_secret_key: str | None = field(default=None, repr=False)
    s3_path_style: bool | None = None
    hdfs_http_address: str | None = None
    hdfs_user: str | None = None
    permissions: Permissions = Permissions.OWNER


def storage_settings(config: Config) -> StorageSettings:
    """The settings of a job, with what workers cannot find out themselves."""
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
    """The user that Hadoop's own tools would take; None when this process has no name."""
    named = os.environ.get("HADOOP_USER_NAME")
    if named:
        return named
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


_in_use = StorageSettings()


def use_storage_settings(settings: StorageSettings) -> None:
    """From here on, storages of this process that are opened without settings of their own get these.

    For processes that do one thing, such as a command or a worker. A driver hands the settings of its job to
    whatever opens a storage (`uris.disks_with`), because another job may run beside it.
    """
    global _in_use
    _in_use = settings
    use_permissions(settings.permissions)


def storage_settings_in_use() -> StorageSettings:
    """What :func:`use_storage_settings` was told last; before that, everything is from the environment."""
    return _in_use
