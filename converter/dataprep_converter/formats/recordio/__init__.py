"""SageMaker's RecordIO-protobuf format."""
