"""RecordIO-protobuf, SageMaker's."""
