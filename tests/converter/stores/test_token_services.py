"""Tests of token services that fail or send broken responses."""

import re

import pytest
from tests.converter.stores.site import serving

from dataprep_converter.core.errors import Unreachable
from dataprep_converter.stores.credentials.token_services import ask
from storeservers.faulty import Fault, HttpProxy, Kind


@pytest.mark.parametrize("kind", [Kind.RESET, Kind.LOST, Kind.BUSY, Kind.TOO_MANY, Kind.TRUNCATED])
def test_an_answer_that_is_none_is_worth_another_attempt(kind: Kind) -> None:
    with serving({"/token": b'{"AccessKeyId": "id"}'}) as site, HttpProxy(site.port, expired="") as proxy:
        proxy.arm([Fault(1, kind)])
        with pytest.raises(Unreachable, match=rf"{re.escape(f'{proxy.host}:{proxy.port}')} .*the credentials of the role"):
            ask(f"{proxy.endpoint}/token", what="the role")
        assert ask(f"{proxy.endpoint}/token", what="the role") == b'{"AccessKeyId": "id"}'
