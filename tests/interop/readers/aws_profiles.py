"""Prints the keys that our credential chain, with botocore, finds for profiles. Arguments: our source folders, `--`, and the profiles'
names."""

import json
import os
import sys

split = sys.argv.index("--")
sys.path[:0] = sys.argv[1:split]

from dataprep_converter.core.errors import ConvertError  # noqa: E402 - after the path is set
from dataprep_converter.stores.credentials.aws import CredentialChain  # noqa: E402 - as above

answers: dict[str, list[object]] = {}
for name in sys.argv[split + 1 :]:
    os.environ["AWS_PROFILE"] = name
    try:
        keys = CredentialChain({}, region="us-east-1").current()
    except ConvertError as exc:
        answers[name] = [type(exc).__name__, str(exc)]
    else:
        answers[name] = [keys.access_key, keys.secret_key, keys.token, keys.expires is not None]
print(json.dumps(answers))  # noqa: T201 - the result
