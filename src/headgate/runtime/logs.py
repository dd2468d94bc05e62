"""Former name of `headgate.common.process.logs`, for old logging configurations; importing it warns."""

import warnings

from headgate.common.process.logs import ContextFilter as ContextFilter

warnings.warn(
    "headgate.runtime.logs is now headgate.common.process.logs; change it in your logging configuration",
    DeprecationWarning,
    stacklevel=2,
)
