"""OpenLineage: events about each run of a job, with its inputs, its output, and how it ended.

Events are plain JSON values, so no client library is needed. `names` names data sets, `events` builds events, `sending` reads the settings
from OpenLineage's own environment variables and posts the events. This package is in the API package because both the operator and the
converter send events.
"""
