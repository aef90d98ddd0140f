"""MaxCompute's error codes and messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class OdpsError(Exception):
    """A request to which the fake responds with an error document."""

    status: int
    code: str
    message: str


def no_such_table(project: str, name: str) -> OdpsError:
    return OdpsError(404, "NoSuchTable", f"ODPS-0130131:Table not found - table {project}.{name} cannot be resolved")


def no_such_partition() -> OdpsError:
    return OdpsError(404, "NoSuchPartition", "The specified partition does not exist.")


def not_permitted(right: str, project: str, name: str) -> OdpsError:
    return OdpsError(
        403,
        "NoPermission",
        "ODPS-0130013:Authorization exception - Authorization Failed [4019], You have NO privilege "
        f"'{right}' on {{acs:odps:*:projects/{project}/tables/{name}}}. Context ID:1-2-3.",
    )


def session_ended(kind: str) -> OdpsError:
    return OdpsError(400, "StatusConflict", f"The {kind} session is expired")


def table_modified() -> OdpsError:
    return OdpsError(
        400, "TableModified", "The specified table has been modified since the download initiated. Try initiate another download."
    )
