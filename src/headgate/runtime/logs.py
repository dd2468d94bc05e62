"""The former name of `headgate.common.process.logs`, which logging configurations may still have."""

import warnings

from headgate.common.process.logs import ContextFilter as ContextFilter

warnings.warn(
    "headgate.runtime.logs is now headgate.common.process.logs; change it in your logging configuration",
    DeprecationWarning,
    stacklevel=2,
)
