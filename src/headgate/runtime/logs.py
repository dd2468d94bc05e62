"""Former name of `headgate.common.process.logs`, kept for logging configurations that still name it."""

import warnings

from headgate.common.process.logs import ContextFilter as ContextFilter

warnings.warn(
    "headgate.runtime.logs is now headgate.common.process.logs; change it in your logging configuration",
    DeprecationWarning,
    stacklevel=2,
)
