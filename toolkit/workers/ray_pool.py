"""Ray's workers: those of a cluster that runs, or of one on this machine for as long as the work takes."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from toolkit.errors import MismatchError, NotFoundError, PackageError, first_line
from toolkit.workers.travel import LostWork, answer_part

ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""A worker has one core; its libraries would take all."""
VERSIONS = "Version mismatch: "
"""The words with which Ray says that a cluster has another version of it, or of Python."""


@contextmanager
def ray_pool(address: str | None, count: int | None) -> Iterator[RayPool]:
    """The workers of the cluster at an address, or of a local one with so many workers, by default one a core.

    A program that has called `ray.init` keeps its cluster; else nothing of Ray is left running here, also after an
    interruption. PackageError without Ray; MismatchError where the cluster has another version of Ray or Python;
    NotFoundError where no cluster answers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anyone
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise PackageError("workers need the package `ray`: pip install 'thinkback[ray]'") from None
    ours = not ray.is_initialized()
    try:
        if ours:
            _connect(ray, address, count)
        yield RayPool(ray)
    finally:
        if ours:
            ray.shutdown()


def _connect(ray: Any, address: str | None, count: int | None) -> None:
    local: dict[str, Any] = {} if address else {"num_cpus": count, "include_dashboard": False}
    where = f"the Ray cluster at `{address}`" if address else "Ray on this machine"
    try:
        ray.init(
            address or "local", log_to_driver=False, logging_level=logging.ERROR,
            runtime_env={"env_vars": ONE_THREAD}, **local,
        )  # fmt: skip
    except Exception as error:  # of Ray, of gRPC, of the system
        if VERSIONS in str(error):
            versions = " ".join(str(error).partition(VERSIONS)[2].split())
            raise MismatchError(f"{where} has other versions: {versions}; install the same on all machines") from None
        raise NotFoundError(f"{where} does not start or answer: {first_line(error)}") from None


class RayPool:
    """The workers of a Ray cluster that this process is connected to."""

    def __init__(self, ray: Any, accelerators: int = 0) -> None:
        self._ray = ray
        self.places = accelerators or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self._answer_part = ray.remote(num_cpus=1, num_gpus=min(accelerators, 1), max_retries=0)(answer_part)

    def with_accelerators(self) -> RayPool:
        """The workers with a GPU each, as many as the cluster has; all of them where it has none."""
        return RayPool(self._ray, int(self._ray.cluster_resources().get("GPU", 0)))

    def give(self, job: bytes) -> Any:
        """Put the job into the store that all workers read."""
        return self._ray.put(job)

    def begin(self, job: Any, part: bytes) -> Hashable:
        """Begin a part on a worker that Ray chooses."""
        task: Hashable = self._answer_part.remote(job, part)
        return task

    def finished(self, tasks: Collection[Hashable], wait_s: float) -> Sequence[Hashable]:
        """The tasks that ended, after at most so many seconds; one at least, if one ends."""
        done: Sequence[Hashable] = self._ray.wait(list(tasks), num_returns=1, timeout=wait_s)[0]
        return done

    def answer(self, task: Hashable) -> bytes:
        """The answer of a task that ended. LostWork where its worker, its machine or its answer is gone; PackageError
        where the worker cannot load Thinkback.
        """
        errors = self._ray.exceptions
        try:
            answer: bytes = self._ray.get(task)
        except errors.RayTaskError as error:
            if isinstance(error.cause, ImportError | RuntimeError) and "import" in str(error.cause):
                raise PackageError(
                    f"workers cannot load Thinkback ({first_line(error.cause)}): install this version on all of them"
                ) from None
            raise
        except errors.RayError as error:
            raise LostWork(f"{type(error).__name__}: {first_line(error)[:120]}") from None
        return answer

    def stop(self, tasks: Collection[Hashable]) -> None:
        """End tasks with the processes that work on them."""
        for task in tasks:
            self._ray.cancel(task, force=True)
