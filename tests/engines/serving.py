"""A real local server in a process of its own, for as long as a test needs it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path


@contextlib.contextmanager
def serving(command: Sequence[str], log: Path, patience_s: float) -> Iterator[str]:
    """Run `command` with `--host` and `--port` added until its `/health` answers; gives the address up to `/v1`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
        try:
            _wait(server, f"http://127.0.0.1:{port}/health", log, patience_s)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:  # busy with its start, so that it hears no signal
                server.kill()
                server.wait()


def _wait(server: subprocess.Popen[bytes], url: str, log: Path, patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except urllib.error.HTTPError:  # it speaks, if only to say that there is no such page
            return
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
    raise AssertionError(f"no answer within {patience_s:g} s\n{log.read_text()}")
