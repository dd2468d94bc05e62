"""The options `headgate.storage.*`: how what a job stores lies on a file system."""

from __future__ import annotations

from typing import Final

from headgate.common.files.permissions import Permissions
from headgate.common.settings.config_option import Choice, ConfigOption

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
