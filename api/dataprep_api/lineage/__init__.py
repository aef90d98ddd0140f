"""OpenLineage: events about each run of a job, with the run's inputs, output and outcome.

Events are plain JSON values, so no client library is needed. The module `names` names data sets, and `events` builds the events. `sending`
posts the events, with the settings in OpenLineage's own environment variables. This package is in the API package because both the operator
and the converter send events.
"""
