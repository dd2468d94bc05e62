"""Workers of a job's own within one Spark application.

Spark keeps a pool of Python workers, with a daemon that forks them, for each set of environment variables
that functions were wrapped with. One variable that names a job's packages by their content is therefore
enough; what it says is put in place by the job's own task (`own_process`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from headgate.common.errors import InternalError
from headgate.deploy.spark.user_code.orders import ShippedCode

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

VARIABLE: Final = "HEADGATE_USER_ENVIRONMENT"
T = TypeVar("T")


class OtherEnvironment:
    """A SparkContext as one RDD sees it: itself in all but the variables of its workers.

    Setting the context's own variables while a function is wrapped would reach functions that other threads
    wrap at the same time, and these would run among the job's packages.
    """

    def __init__(self, context: SparkContext, variables: dict[str, str]) -> None:
        self._context = context
        self.environment = {**context.environment, **variables}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def in_workers_of(rdd: RDD[T], code: ShippedCode) -> RDD[T]:
    """The same RDD, computed in workers where a job's code can run; it was neither computed nor asked for its
    id yet.
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
