"""Begins a job of an isolated program on Spark: ships its code, and makes tasks that open the code."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.common.errors import InternalError
from headgate.common.ports import IsolatedCode
from headgate.common.settings.config import Config
from headgate.deploy.spark.user_code.opening_code import Body, task_function
from headgate.deploy.spark.user_code.orders import VARIABLE, ShippedCode, options_of
from headgate.deploy.spark.user_code.running_jobs import jobs_of
from headgate.usercode.namespaces.imports import is_installed
from headgate.usercode.settings import UserCodeSettings

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.rdd import RDDBarrier

T = TypeVar("T")

_log = logging.getLogger("headgate.usercode")


def begun(
    context: SparkContext, config: Config, code: IsolatedCode, job: str, scope: ExitStack
) -> ShippedCode:
    """Ship a job's code to Spark and return its description; when `scope` ends, the job counts as ended."""
    settings = UserCodeSettings.from_config(config)
    jobs = jobs_of(context)
    scope.callback(jobs.end, job)
    shipped = jobs.begin(job, code.paths, options_of(settings, is_installed()))
    for warning in (*settings.warnings, *shipped.warnings):
        _log.warning("%s", warning)
    return shipped


def workers_with(
    code: ShippedCode, rows: RDDBarrier[int], context: SparkContext, body: Body[int, int]
) -> RDD[int]:
    """Return the RDD of a gang's tasks, one per row: each opens the job's code and runs `body` with it."""
    function = task_function(code, jobs_of(context).live(), body)
    return in_workers_of(rows.mapPartitions(function), code)


class OtherEnvironment:
    """A stand-in for a SparkContext, with other environment variables for the workers of one RDD.

    Setting the context's own variables while a function is wrapped would reach functions that other threads
    wrap at the same time, and these would run among the job's packages.
    """

    def __init__(self, context: SparkContext, variables: dict[str, str]) -> None:
        self._context = context
        self.environment = {**context.environment, **variables}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def in_workers_of(rdd: RDD[T], code: ShippedCode) -> RDD[T]:
    """Return `rdd`, changed to run in workers that may hold the job's code; InternalError: already wrapped.

    Spark keeps a pool of Python workers, with a daemon that forks them, for each set of environment variables
    that functions were wrapped with. One variable that names a job's packages by their content is therefore
    enough; the job's own task puts these packages in place (`own_process`).
    """
    if code.environment is None:
        return rdd
    if getattr(rdd, "_jrdd_val", None) is not None:
        raise InternalError(
            f"the function of {rdd} was wrapped before its workers were chosen, for job {code.job!r}"
        )
    other = OtherEnvironment(rdd.ctx, {VARIABLE: code.environment.key})
    rdd.ctx = other  # type: ignore[assignment] # all that Spark asks of it
    return rdd
