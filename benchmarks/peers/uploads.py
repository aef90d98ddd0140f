"""Uploads one large file to a store server, with our store, with the client library that our store uses, or with a different client.

uploads.py ours|obstore|boto3|oss-put|oss-parts|oss-uploader|oss-unchecked|hdfs-native|dfs-put INPUT OUTPUT RECORDS

A record is one MiB. The server is described in a file next to OUTPUT (see `servers`), and the object has OUTPUT's name. Each client reads
the file in pieces while it sends them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from clocked import clocked

_PIECE = 4 << 20
_PART = 8 << 20
SERVER: dict[str, Any] = json.loads((Path(sys.argv[3]).parent / "server.json").read_text())
NAME = Path(sys.argv[3]).name
URI = f"{SERVER['uri']}/{NAME}"


def pieces(file: Path) -> Iterator[bytes]:
    """Yields the file's bytes in pieces."""
    with file.open("rb", buffering=0) as source:
        while piece := source.read(_PIECE):
            yield piece


def ours() -> Callable[[Path], object]:
    """Returns a function that uploads a file with our store, just as a shard is written."""
    from dataprep_converter.inputs.access import Access
    from dataprep_converter.stores import StoreSettings

    scheme = SERVER["store"]
    settings = StoreSettings(uri_prefix=f"{scheme}://")
    if scheme != "hdfs":
        keys = {name: SERVER[name] for name in ("accessKeyId", "accessKeySecret")}
        settings = StoreSettings(
            uri_prefix=f"{scheme}://", endpoint=SERVER["endpoint"], region=SERVER["region"], path_style=True, credentials=keys
        )
    store = Access([settings]).store(URI)

    def upload(file: Path) -> object:
        made = store.create(URI, size_hint=file.stat().st_size)
        for piece in pieces(file):
            made.write(piece)
        return made.commit(replace=True)

    return upload


def obstore() -> Callable[[Path], object]:
    import obstore
    from obstore.store import S3Store

    client = S3Store(
        SERVER["bucket"],
        endpoint=SERVER["endpoint"],
        region=SERVER["region"],
        access_key_id=SERVER["accessKeyId"],
        secret_access_key=SERVER["accessKeySecret"],
        client_options={"allow_http": True},
    )
    return lambda file: obstore.put(client, NAME, file)


def boto3() -> Callable[[Path], object]:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=SERVER["endpoint"],
        region_name=SERVER["region"],
        aws_access_key_id=SERVER["accessKeyId"],
        aws_secret_access_key=SERVER["accessKeySecret"],
    )
    return lambda file: client.upload_file(str(file), SERVER["bucket"], NAME)


def _oss(*, checks: bool = True) -> Any:
    import alibabacloud_oss_v2 as oss

    config = oss.config.load_default()
    config.region, config.endpoint, config.use_path_style = SERVER["region"], SERVER["endpoint"], True
    config.disable_upload_crc64_check = not checks
    config.credentials_provider = oss.credentials.StaticCredentialsProvider(SERVER["accessKeyId"], SERVER["accessKeySecret"])
    return oss.Client(config)


def oss_put() -> Callable[[Path], object]:
    """Returns a function that uploads a file in one request."""
    import alibabacloud_oss_v2 as oss

    client = _oss()
    return lambda file: client.put_object_from_file(oss.PutObjectRequest(bucket=SERVER["bucket"], key=NAME), str(file))


def oss_uploader(**options: int) -> Callable[[Path], object]:
    """Returns a function that uploads a file with the SDK's uploader. By default, the uploader sends parts of 6 MiB in three threads."""
    import alibabacloud_oss_v2 as oss

    uploader = _oss().uploader(**options)
    return lambda file: uploader.upload_file(oss.PutObjectRequest(bucket=SERVER["bucket"], key=NAME), str(file))


def oss_unchecked() -> Callable[[Path], object]:
    """Returns a function that uploads a file in parts of 8 MiB without checksums, four at a time. This is the limit for a server that joins
    parts."""
    import alibabacloud_oss_v2 as oss

    client, target = _oss(checks=False), {"bucket": SERVER["bucket"], "key": NAME}

    def send(upload: str, file: Path, number: int) -> Any:
        with file.open("rb") as source:
            source.seek((number - 1) * _PART)
            body = source.read(_PART)
        sent = client.upload_part(oss.UploadPartRequest(**target, upload_id=upload, part_number=number, body=body))
        return oss.UploadPart(part_number=number, etag=sent.etag)

    def upload(file: Path) -> None:
        begun = client.initiate_multipart_upload(oss.InitiateMultipartUploadRequest(**target)).upload_id
        with ThreadPoolExecutor(4) as threads:
            parts = list(threads.map(partial(send, begun, file), range(1, -(-file.stat().st_size // _PART) + 1)))
        made = oss.CompleteMultipartUpload(parts=parts)
        client.complete_multipart_upload(oss.CompleteMultipartUploadRequest(**target, upload_id=begun, complete_multipart_upload=made))

    return upload


def hdfs_native() -> Callable[[Path], object]:
    import hdfs_native

    client = hdfs_native.Client(SERVER["uri"].removesuffix(f"/{SERVER['bucket']}"))
    options = hdfs_native.WriteOptions(overwrite=True, create_parent=True)

    def upload(file: Path) -> None:
        made = client.create(f"/{SERVER['bucket']}/{NAME}", options)
        for piece in pieces(file):
            made.write(piece)
        made.close()

    return upload


def dfs_put() -> Callable[[Path], object]:
    """Returns a function that uploads a file with `hdfs dfs -put`, including the start of its JVM."""
    command = ["java", "-cp", SERVER["classes"], "org.apache.hadoop.fs.FsShell"]
    subprocess.run([*command, "-mkdir", "-p", SERVER["uri"]], check=True, stdout=subprocess.DEVNULL)
    return lambda file: subprocess.run([*command, "-put", "-f", str(file), URI], check=True, stdout=subprocess.DEVNULL)


CLIENTS: Mapping[str, Callable[[], Callable[[Path], object]]] = {
    "ours": ours,
    "obstore": obstore,
    "boto3": boto3,
    "oss-put": oss_put,
    "oss-parts": lambda: oss_uploader(parallel_num=1, part_size=8 << 20),
    "oss-uploader": oss_uploader,
    "oss-unchecked": oss_unchecked,
    "hdfs-native": hdfs_native,
    "dfs-put": dfs_put,
}


def main(kind: str, source: Path, records: int) -> None:
    upload = CLIENTS[kind]()
    file = source / "object"

    def work() -> int:
        upload(file)
        return records

    clocked(work)
    sys.stdout.flush()
    # Native clients can be slow to exit, which isn't part of the upload.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[4]))
