"""MaxCompute: download sessions that end, tables that change, responses that are cut off, and wrong credentials.

Reading resumes or fails with a clear error.
"""

from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.converter.readers.numbered_tables import ROWS, T, a_source, counted, numbered, read, values
from tests.converter.readers.reader_contract import chunks, plan, rows

from dataprep_api.spec import Source, Store
from dataprep_converter.core.errors import BadCredentials, BadSpec, InputChanged, NotPermitted, Unreachable
from dataprep_converter.inputs import maxcompute
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import settings_for
from dataprep_converter.readers.databases.table import TableReader
from dataprep_converter.runtime.retry import with_deadline
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.steps.preflight import check_source
from dataprep_converter.stores import StoreSettings
from storeservers.odps import AccessKey, FakeMaxCompute, Rows, wire


@pytest.fixture(autouse=True)
def fake(maxcompute: FakeMaxCompute) -> FakeMaxCompute:
    return maxcompute


# --- sessions -----------------------------------------------------------------------------------------------------


def plan_of(fake: FakeMaxCompute, **options: Any) -> tuple[Source, UnitTable, dict[str, Any]]:
    numbered(fake, 120)
    source = a_source(**options)
    return source, *plan(TableReader, source)


@pytest.mark.slow
@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize(
    ("how", "pin"),
    [
        ("end_sessions", "Sampled"),
        ("forget_sessions", "Content"),
        pytest.param("end_sessions", "Content", marks=pytest.mark.nightly),
        pytest.param("forget_sessions", "Sampled", marks=pytest.mark.nightly),
    ],
)
def test_a_session_that_has_ended_is_followed_by_another_with_the_same_rows(fake: FakeMaxCompute, pin: str, how: str) -> None:
    source, units, state = plan_of(fake, pin=pin)
    before = read(source, units, state)
    getattr(fake, how)()
    assert read(source, units, state) == before


@pytest.mark.usefixtures("small_slices")
def test_a_session_may_end_while_rows_are_read(fake: FakeMaxCompute) -> None:
    source, units, state = plan_of(fake)
    found = TableReader(source.member, state, Access()).read(units, chunks(np.arange(120), 10))
    ids = [row["id"] for row in rows([next(found)])]
    fake.end_sessions()
    assert ids + [row["id"] for row in rows(list(found))] == list(range(120))


def shifted(count: int, *, first: int) -> Rows:
    """Return the rows of `counted`, but with the rows from `first` on in reverse order."""

    def at(start: int, length: int) -> pa.Table:
        ids = np.arange(start, start + length)
        ids = np.where(ids >= first, count - 1 - (ids - first), ids)
        return pa.table({"id": ids, "x": ids / 2}, schema=ROWS)

    return Rows(count, at, ROWS)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize(("pin", "first", "message"), [
    ("Sampled", 50, "rows 50 to 65 have changed since they were planned"),
    ("Content", 50, "rows 50 to 74 have changed since they were planned"),
    ("Content", 119, None),
    ("Content", 100, "rows 100 to 119 have changed since they were planned"),
], ids=["head", "block", "same", "last block"])  # fmt: skip
def test_rows_in_another_order_are_noticed_when_a_session_is_renewed(
    fake: FakeMaxCompute, pin: str, first: int, message: str | None
) -> None:
    source, units, state = plan_of(fake, pin=pin)
    fake.end_sessions()
    fake.reorder("t", shifted(120, first=first))
    if message is None:
        assert len(read(source, units, state)) == 120
        return
    with pytest.raises(InputChanged, match=rf"{T}: {message}\. Plan again\.") as caught:
        read(source, units, state)
    assert caught.value.uri == T


def test_a_table_that_changed_after_its_session_ended_is_named(fake: FakeMaxCompute) -> None:
    source, units, state = plan_of(fake)
    fake.end_sessions()
    fake.fill("t", counted(121))
    expected = "has changed since it was planned, and the download session of the plan has ended: 120 rows then, 121 now. Plan again."
    with pytest.raises(InputChanged, match=expected):
        read(source, units, state)


def test_a_table_that_changed_is_another_input_even_with_as_many_rows(fake: FakeMaxCompute) -> None:
    _, units, _ = plan_of(fake)
    fake.fill("t", counted(120))
    again, _ = plan(TableReader, a_source())
    assert units.unit(0).pin != again.unit(0).pin


# --- faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 3, 70_000, 100_000])
def test_a_stream_that_breaks_off_is_read_on(fake: FakeMaxCompute, size: int) -> None:
    numbered(fake, 20_000)
    source = a_source()
    units, state = plan(TableReader, source)
    fake.controls.cut_after.append(size)
    assert [row["id"] for row in read(source, units, state)] == list(range(20_000))
    assert fake.controls.cut_after == []


def test_a_stream_that_breaks_off_where_a_message_and_its_checksum_end_is_no_end(
    fake: FakeMaxCompute, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(fake, 20_000)
    source = a_source()
    units, state = plan(TableReader, source)
    (batch,) = counted(4_999).at(0, 4_999).to_batches()
    message = batch.serialize().size
    monkeypatch.setattr(wire, "CHUNK_BYTES", message)
    fake.controls.cut_after.append(4 + 2 * (message + 4))
    with pytest.raises(Unreachable, match=rf"{T}: 127\.0\.0\.1:\d+ sent 9,998 rows instead of the 20,000 rows that start at row 0\."):
        read(source, units, state)


def test_an_answer_of_a_busy_service_is_asked_for_again(fake: FakeMaxCompute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odps.tunnel.retry.time.sleep", lambda _: None)
    numbered(fake, 20)
    fake.controls.fail_next.extend([503, 500])
    assert len(values(a_source())) == 20


def key(fake: FakeMaxCompute, **changes: str) -> Access:
    given = {"accessKeyId": fake.access_id, "accessKeySecret": fake.secret} | changes
    return Access([StoreSettings(uri_prefix="odps://p/", endpoint=fake.endpoint, tunnel_endpoint=fake.tunnel_endpoint, credentials=given)])


def test_wrong_credentials_are_named_and_never_shown(fake: FakeMaxCompute) -> None:
    numbered(fake, 1)
    for changes, said in (
        ({"accessKeySecret": "wr0ng"}, "Invalid signature value"),
        ({"accessKeyId": "nobody"}, "accessKeyId not found"),
        ({"securityToken": "0ld"}, "the security token is wrong or has expired"),
    ):
        with pytest.raises(BadCredentials, match=rf"{T}: 127\.0\.0\.1:\d+ refused the credentials: .*{said}") as caught:
            check_source(key(fake, **changes), T)
        assert not any(value in str(caught.value) for value in (*changes.values(), fake.secret) if value != "nobody")


def test_a_token_of_sts_and_a_region_are_signed_for(fake: FakeMaxCompute, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(fake, 1)
    monkeypatch.setitem(fake.controls.keys, "sts", AccessKey("sts", "temporary", token="t0ken"))
    settings = StoreSettings(
        uri_prefix="odps://",
        endpoint=fake.endpoint,
        region="cn-hangzhou",
        credentials={"accessKeyId": "sts", "accessKeySecret": "temporary", "securityToken": "t0ken"},
    )
    source = a_source()
    units, _ = TableReader.discover(source.member, Access([settings])).collect()
    assert units.samples == 1


def test_the_tunnel_may_be_named_in_the_spec(fake: FakeMaxCompute) -> None:
    numbered(fake, 1)
    store = Store.model_validate({"uriPrefix": "odps://p/", "endpoint": fake.endpoint, "tunnelEndpoint": fake.tunnel_endpoint})
    TableReader.discover(a_source().member, Access(settings_for([store], None)))
    assert not any(path.endswith("/tunnel") for _, path, _ in fake.controls.log)


def test_no_credentials_and_no_endpoint_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODPS_ACCESS_ID")
    import_module("alibabacloud_credentials.utils.auth_util")  # the module reads the variable only once, when it is imported
    monkeypatch.setenv("ALIBABA_CLOUD_ECS_METADATA_DISABLED", "true")
    with pytest.raises(
        BadCredentials, match=rf"{T}: No credentials for Alibaba Cloud: .* Give the store a Secret \(accessKeyId, accessKeySecret\)"
    ):
        check_source(Access(), T)
    monkeypatch.delenv("ODPS_ENDPOINT")
    with pytest.raises(BadSpec, match=r"odps:// needs endpoint \(or ODPS_ENDPOINT\), such as https://service\."):
        check_source(Access(), T)


@pytest.mark.parametrize("right", ["odps:Describe", "odps:Select", "odps:Download"])
def test_a_missing_right_is_named(fake: FakeMaxCompute, right: str) -> None:
    numbered(fake, 1)
    fake.controls.denied.add(right)
    with pytest.raises(NotPermitted, match=rf"missing {right} on acs:odps:\*:projects/p/tables/t, for {T}"):
        plan(TableReader, a_source())


def preflight_of(uri: str) -> None:
    with with_deadline(seconds=0):
        check_source(Access(), uri)


def test_a_service_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODPS_ENDPOINT", "http://127.0.0.1:1/api")
    with pytest.raises(Unreachable, match=r"odps://p/tables/t: cannot connect to 127\.0\.0\.1:1"):
        preflight_of(T)


def test_a_tunnel_that_does_not_answer_is_named(fake: FakeMaxCompute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODPS_TUNNEL_ENDPOINT", "http://127.0.0.1:1")
    numbered(fake, 1)
    with with_deadline(seconds=0), pytest.raises(Unreachable, match=r"odps://p/tables/t: cannot connect to 127\.0\.0\.1:1"):
        plan(TableReader, a_source())


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "odps", None)
    with pytest.raises(BadSpec, match=r"pip install 'dataprep-operator\[maxcompute\]'"):
        maxcompute.check(T, Access())
