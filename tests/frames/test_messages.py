"""Error messages for users of an engine name the engine's calls and options, not the fields of a job."""

import pytest

from dataprep_converter.core.errors import NotWhole
from dataprep_converter.dataset.frame_rows import RAY, SPARK
from dataprep_frames.messages import in_words_of


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "s3://b/x has changed. See dataprep verify, or set output.overwrite: Always.",
            's3://b/x has changed. See dataprep verify, or use mode("overwrite").',
        ),
        (
            "Use that release, or run the job again with output.overwrite: Always.",
            'Use that release, or write the DataFrame again with mode("overwrite").',
        ),
        ("/data/output.parquet is gone: set output.fileName.", "/data/output.parquet is gone: set fileName."),
        ("output.fileName differs (it was 'a': set the same in the job)", "fileName differs (it was 'a': set the same option)"),
        ('x; add nested: ["a \\" b"] to the options of the write to keep it', 'x; add "a \\" b" to the option nested to keep it'),
        ("/a/output.d/x: the output. It ends.", "/a/output.d/x: the output. It ends."),
    ],
)
def test_a_message_is_put_into_words_of_spark(message: str, words: str) -> None:
    with pytest.raises(NotWhole) as caught, in_words_of(SPARK):
        raise NotWhole(message, uri="s3://b/x")
    assert (str(caught.value), caught.value.uri) == (words, "s3://b/x")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("See dataprep verify, or set output.overwrite: Always.", 'See dataprep verify, or use mode="overwrite".'),
        ("Run the job again", "Run the job again"),
        ("run the job again with output.overwrite: Always", 'write the Dataset again with mode="overwrite"'),
        ("This job is not the job that made the data set", "The options of DataprepDatasink are not those of the data set"),
        ("DataprepDatasink.nested: there is no column", "the option nested: there is no column"),
    ],
)
def test_each_engine_has_its_words(message: str, words: str) -> None:
    with pytest.raises(NotWhole) as caught, in_words_of(RAY):
        raise NotWhole(message)
    assert str(caught.value) == words
