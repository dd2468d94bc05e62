"""Errors of user code that cannot be loaded, is used after its end, or clashes with loaded packages.

What a program's functions raise while records are processed is reported by `runtime.job.user_errors`.
"""

from __future__ import annotations

from headgate.common.errors import OperatingError, UsageError


class UserCodeLoadError(UsageError):
    """The user's program or its packages cannot be loaded."""


class ClosedUserCodeLoaderError(RuntimeError):
    """Code of a job that has ended asked for a module.

    It is no ImportError: a program that tries an import and goes on without it must not swallow this.
    """


class NativeModuleConflictError(ImportError):
    """A package with compiled parts cannot be loaded: this process has loaded another copy, or is full."""


class ForeignObjectError(UsageError):
    """An object of a class from one copy of a package was about to reach code that uses another copy."""


class DifferentUserCodeError(UsageError):
    """A job's task came with other code than the job's open isolated namespace in this process has."""


class NoIsolationError(OperatingError):
    """This Python interpreter cannot isolate a program's modules from others within one process."""
