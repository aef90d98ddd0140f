"""A Kubeflow pipeline whose step makes a data set with a DataPrepJob. docs/pipelines.md describes the image and the rights of the step.

python examples/pipelines/kfp_pipeline.py pipeline.yaml
"""

import sys

from kfp import compiler, dsl

IMAGE = "registry.example.org/dataprep-python:0.1.0"
"""An image with `dataprep-operator[cluster]`, and with kfp without its dependencies."""


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def make_data_set(job: str, data_set: dsl.Output[dsl.Dataset], namespace: str = "") -> int:
    """Runs a job in a namespace of the cluster or, without a namespace, in this step's own pod. Returns the number of records.

    If the step is repeated, it finds its job again, and retries the job if the job has failed.

    Args:
        job: the YAML text of a DataPrepJob
        data_set: the finished data set
        namespace: the namespace of the DataPrepJob
    """
    import tempfile

    import dataprep_io as dp

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(job)
        file.flush()
        described = dp.Job.from_yaml(file.name)
    if namespace:
        try:
            submitted = dp.Job.attach(described.name, namespace=namespace)
        except dp.JobNotFound:
            submitted = described.submit(namespace=namespace)
        if submitted.phase == "Failed":
            submitted.retry()
        result = submitted.wait()
    else:
        result = described.run()
    data_set.uri = result.uri
    data_set.metadata.update(runId=result.run_id, manifest=result.manifest_uri, records=result.records, splits=dict(result.splits))
    return result.records


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def count_records(data_set: dsl.Input[dsl.Dataset]) -> int:
    """Reads a data set that has a single split. In a real pipeline, a training step replaces this step. Returns the number of records."""
    import dataprep_io as dp

    return sum(len(next(iter(batch.values()))) for batch in dp.open(data_set.uri, batch_size=256))


@dsl.pipeline(name="dataprep", description="Makes a data set and reads it.")
def pipeline(job: str, namespace: str = "") -> int:
    """Makes a data set and reads it."""
    made = make_data_set(job=job, namespace=namespace)
    # A repeated run of the pipeline must not take the result from the cache: the job itself finds out whether its inputs have changed.
    made.set_caching_options(enable_caching=False)
    return count_records(data_set=made.outputs["data_set"]).output


if __name__ == "__main__":
    compiler.Compiler().compile(pipeline, sys.argv[1])
