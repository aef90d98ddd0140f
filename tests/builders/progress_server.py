"""The operator's progress endpoint, served in a thread of the test. Only the cluster's objects are made up."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from tests.builders.tokens import LABELS, Keys, a_cache, a_token

from dataprep_operator.informer.cache import Kind
from dataprep_operator.server.endpoint import Endpoint
from dataprep_operator.server.probes import Health
from dataprep_operator.server.progress import ProgressStore
from dataprep_operator.server.tokens import Verifier

JOB = "mnist"


@contextmanager
def progress_server(pods: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the server's address, and a token for each pod of the job."""
    cache = a_cache()
    owner = {"kind": "Job", "name": "mnist-convert-1", "uid": "child-uid", "controller": True}
    names = [{"name": f"pod-{number}", "uid": f"uid-{number}"} for number in range(pods)]
    for name in names:
        pod = {**name, "namespace": "team-a", "labels": LABELS, "ownerReferences": [owner]}
        cache.put(Kind.PODS, {"metadata": pod, "status": {"phase": "Running"}})
    endpoint = Endpoint(
        cache=cache,
        progress_store=ProgressStore(),
        verifier=Verifier(Keys().fetch),
        health=Health(age_limit_seconds=180, leading=True),
        enqueue=lambda _: None,
    )
    loop = asyncio.new_event_loop()

    async def start() -> tuple[web.AppRunner, int]:
        runner = web.AppRunner(endpoint.application())
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        return runner, port

    thread = threading.Thread(target=loop.run_forever, name="progress", daemon=True)
    thread.start()
    runner, port = asyncio.run_coroutine_threadsafe(start(), loop).result(timeout=30)
    try:
        yield f"http://127.0.0.1:{port}", [a_token(pod=name) for name in names]
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(timeout=30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
