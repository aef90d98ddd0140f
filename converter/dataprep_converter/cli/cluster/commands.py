"""`dataprep logs` and `dataprep retry`: commands that call kubectl for a job in a cluster."""

import argparse
import sys

from dataprep_api.exits import Exit


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds both commands."""
    logs = commands.add_parser("logs", help="logs of a DataPrepJob's pods (needs kubectl)")
    logs.add_argument("job", help="name of the DataPrepJob")
    logs.add_argument("-n", "--namespace", help="its namespace")
    logs.add_argument("--failed", action="store_true", help="only logs of failed pods")
    logs.add_argument("-f", "--follow", action="store_true", help="follow the logs while the pods run")
    logs.set_defaults(command=_logs, is_light=True)
    retry = commands.add_parser("retry", help="retry a failed DataPrepJob, which makes only the missing files (needs kubectl)")
    retry.add_argument("job", help="name of the DataPrepJob")
    retry.add_argument("-n", "--namespace", help="its namespace")
    retry.set_defaults(command=_retry, is_light=True)


def _logs(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.cli.cluster import pod_logs

    return pod_logs.show(arguments.job, namespace=arguments.namespace, failed=arguments.failed, follow=arguments.follow)


def _retry(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.cli.cluster import job_retry

    sys.stdout.write(job_retry.retry(arguments.job, namespace=arguments.namespace))
    return Exit.DONE
