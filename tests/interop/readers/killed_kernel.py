"""Runs code in a Jupyter kernel, and kills the kernel with SIGKILL as soon as the code has printed a line: killed_kernel.py CODE.

Prints the line.
"""

import os
import signal
import sys

from jupyter_client.manager import start_new_kernel

SECONDS = 180


def main() -> None:
    """Start the kernel, run the code, kill the kernel."""
    (code,) = sys.argv[1:]
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        client.execute(code)
        while (message := client.get_iopub_msg(timeout=SECONDS))["msg_type"] != "stream":
            if message["msg_type"] == "error":
                sys.exit("\n".join(message["content"]["traceback"]))
        os.kill(manager.provisioner.pid, signal.SIGKILL)
        sys.stdout.write(message["content"]["text"])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
