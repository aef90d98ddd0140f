"""Removing credentials and control characters from texts that are shown or stored."""

import pytest

from dataprep_api.redaction import has_masked_text, has_user, one_line, printable, redacted, unsigned, with_credentials_masked


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("s3://AKIA:se/cret@bucket/x", "s3://…@bucket/x"),
        ("s3://AKIA:secret@bucket/x", "s3://…@bucket/x"),
        ("https://ghp_token@github.com/a.git is gone", "https://…@github.com/a.git is gone"),
        ("postgresql://me:p@ss:w/rd@db/x", "postgresql://…@db/x"),
        ("postgresql://me@db:5432/x: refused", "postgresql://me@db:5432/x: refused"),
        ("postgresql://db/x?sslmode=require&password=hunter2", "postgresql://db/x?sslmode=require&password=…"),
        ("a long one: s3://AKIA:sec…", "a long one: s3://…"),
        ("s3://bucket: no such bucket, http://h:8080, http://[::1]:80/", "s3://bucket: no such bucket, http://h:8080, http://[::1]:80/"),
        ("postgresql://db:5432: refused; sqlite:///C:/x", "postgresql://db:5432: refused; sqlite:///C:/x"),
        ("abfss://data@account.dfs.core.windows.net/x", "abfss://data@account.dfs.core.windows.net/x"),
        ("https://h/a.csv?X-Amz-Signature=abc, then", "https://h/a.csv?…, then"),
        ("oss://b/a?Signature=abc", "oss://b/a?Signature=…"),
        ("s3://b/photo@2x.png and hdfs://nn:8020/a@b", "s3://b/photo@2x.png and hdfs://nn:8020/a@b"),
        ("http://[2001:db8::1]:9000/a@b: refused", "http://[2001:db8::1]:9000/a@b: refused"),
        ("http://[2001:db8::1]:9000:s@b/x", "http://…@b/x"),
        ("oss://b/a#?token=abc&x=1", "oss://b/a#?token=…&x=1"),
    ],
)
def test_credentials_in_a_text_are_not_shown(text: str, seen: str) -> None:
    assert redacted(text) == seen


@pytest.mark.parametrize(
    ("uri", "kept"),
    [
        ("https://h/a.csv?id=5&token=abc", "https://h/a.csv?id=5"),
        ("https://h/a?X-Amz-Algorithm=A&X-Amz-Credential=c&X-Amz-Signature=s&versionId=7", "https://h/a?versionId=7"),
        ("https://h/a?OSSAccessKeyId=k&Expires=9&Signature=s&x-oss-process=resize", "https://h/a?x-oss-process=resize"),
        ("https://h/a?sv=1&se=2&sp=r&sig=x", "https://h/a"),
        ("https://h/a?%73ig=x", "https://h/a"),
        ("https://h/a?page=2&expires=never", "https://h/a?page=2&expires=never"),
        ("s3://b/what?sig=name", "s3://b/what?sig=name"),
    ],
)
def test_a_record_names_the_file_and_not_its_signature(uri: str, kept: str) -> None:
    assert unsigned(uri) == kept


def test_what_is_stored_of_a_text_tells_it_from_others_and_not_its_credential() -> None:
    one, other = (
        with_credentials_masked({"a": [f"curl https://me:{password}@h/x?id=5&token={password}"]})["a"][0] for password in ("one", "other")
    )
    assert one == "curl https://…@h/x?id=5&token=… (SHA-256 99af6cbddc52b5d2)"
    assert one != other
    assert with_credentials_masked(one) == one
    assert has_masked_text({"a": [one]})
    for plain in ("https://h/a?versionId=7", "postgresql://me@db/x", "a:b@c", "SELECT 1"):
        assert with_credentials_masked(plain) == plain
        assert not has_masked_text(plain)


def test_what_a_terminal_obeys_is_shown_escaped() -> None:
    assert printable("\x1b]0;x\x07 \x9b31m \u202egpj.exe \udc80 \U000e0041") == (
        r"\u001b]0;x\u0007 \u009b31m \u202egpj.exe \udc80 \udb40\udc41"
    )
    assert printable("Käse 中文 👩‍🔬\tb\n") == "Käse 中文 👩‍🔬\tb\n"
    assert one_line("a\nerror: b") == r"a\nerror: b"


@pytest.mark.parametrize("part", ["#pass", "?pass", "#", "a://b:", "http://", "http://a?", "a://", "=pass&"])
def test_nobody_holds_up_the_operator_by_a_text(part: str) -> None:
    """Pods and servers can send texts of any length.

    With quadratic patterns, redaction took seconds for 4 KB, and would take days for this test's texts.
    """
    text = "@ x://" + part * 100_000
    assert len(redacted(text)) <= len(text)
    assert len(with_credentials_masked(text)) <= len(text)


@pytest.mark.parametrize(
    ("uri", "has"),
    [
        ("s3://k:s@b/x", True),
        ("https://token@h/x", True),
        ("s3://b/a@b", False),
        ("abfss://c@a/x", False),
        ("abfss://c:key@a/x", True),
        ("/data/a@b:c", False),
        ("hdfs://nn:8020/a@b", False),
        ("http://[::1]:9000/a@b", False),
        ("http://me:pw@[::1]:9000/a", True),
        ("s3://k:s/l@b/x", True),
        ("AKIA:se/cret@bucket/x", True),
        ("./AKIA:secret@bucket", False),
        ("in/a:b@c.csv", False),
        ("a@b:c", False),
        ("C:/a", False),
    ],
)
def test_a_user_in_a_uri_is_found(uri: str, has: bool) -> None:
    assert has_user(uri) is has
