"""The command `dataprep spark-plan`, which the pods of a job with `engine.spark` run."""

import argparse
import os
from pathlib import Path

from dataprep_api.exits import Exit
from dataprep_converter.cli import step_commands
from dataprep_converter.cli.arguments import job_command, job_of
from dataprep_converter.runtime import limits


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command."""
    command = job_command(commands, "spark-plan", "plan a job on its own Spark cluster (the pods of engine.spark run this)")
    command.add_argument(
        "--master", required=True, metavar="URL", help="spark://HOST:PORT of the master, which runs in the pod with index 0"
    )
    command.add_argument("--secret-file", required=True, type=Path, metavar="FILE", help="file with the secret of the cluster")
    command.add_argument(
        "--index",
        type=int,
        metavar="N",
        help="index of the pod: 0 runs the master and the driver, all others run a worker (default: JOB_COMPLETION_INDEX)",
    )
    command.set_defaults(command=_spark_plan, dry_run=False, json=False, limit=None, scan=None)


def _spark_plan(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.core.errors import BadSpec
    from dataprep_converter.steps import spark_pods
    from dataprep_converter.steps.executors import executors_of

    job = job_of(arguments)
    if job.spec.engine is None:
        raise BadSpec("The job has no engine.spark.")
    index = arguments.index if arguments.index is not None else int(os.environ.get("JOB_COMPLETION_INDEX") or 0)
    cluster = spark_pods.Cluster(
        job.spec.engine.spark,
        master=arguments.master,
        address=spark_pods.own_address(),
        secret=spark_pods.read_secret(arguments.secret_file),
        memory=limits.memory_bytes(),
    )
    installation = spark_pods.installation()
    if index > 0:
        spark_pods.work(cluster, installation)
    with spark_pods.master(cluster, installation):
        # This process may use only a part of the pod's memory. The rest is for the processes of Spark.
        os.environ[limits.MEMORY_VARIABLE] = str(cluster.driver_bytes())
        with executors_of(arguments.master, {}, name=job.metadata.name) as executors:
            return step_commands.run_plan(arguments, executors=executors)
