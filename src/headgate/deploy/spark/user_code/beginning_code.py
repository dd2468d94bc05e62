"""A job of an isolated program begins on Spark: its code is shipped, and its gang opens it in the workers."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from headgate.common.ports import IsolatedCode
from headgate.common.settings.config import Config
from headgate.deploy.spark.user_code.orders import ShippedCode, options_of
from headgate.deploy.spark.user_code.own_workers import in_workers_of
from headgate.deploy.spark.user_code.running_jobs import jobs_of
from headgate.deploy.spark.user_code.tasks import Body, task_function
from headgate.usercode.namespaces.process_setup import is_installed
from headgate.usercode.settings import UserCodeSettings

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.rdd import RDDBarrier

_log = logging.getLogger("headgate.usercode")


def begun(
    context: SparkContext, config: Config, code: IsolatedCode, job: str, scope: ExitStack
) -> ShippedCode:
    """Ship a job's own code; with the end of `scope` the job counts as over, and workers release it."""
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
    """The tasks of a gang: each opens the code and runs the body with it."""
    function = task_function(code, jobs_of(context).live(), body)
    return in_workers_of(rows.mapPartitions(function), code)
