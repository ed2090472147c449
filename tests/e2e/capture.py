# SPDX-License-Identifier: Apache-2.0
"""`uroce capture` under test, and tshark as the judge of its files."""
import contextlib
import re
import signal
import subprocess
import time

from process import Failed, Process, wait_until


def start_capture(host, path, *arguments):
    capture = Process(host.uroce("capture", "-w", path, *arguments))
    wait_until(lambda: "capturing on" in capture.output() or not capture.running(),
               "uroce capture to start")
    return capture


def stop_capture(capture):
    """Ends it as Ctrl-C does; returns what it said."""
    capture.signal(signal.SIGINT)
    return capture.expect_success(30)


def stop_complete_capture(tcpdump):
    """Ends a tcpdump that writes to a file; fails if it has not had all packets."""
    time.sleep(1.2)  # The kernel gives it what is there at least once in a second.
    tcpdump.stop(60)
    said = tcpdump.output()
    captured, received, dropped = (
        int(re.search(rf"(\d+) packets {what}", said)[1])
        for what in ("captured", "received by filter", "dropped by kernel"))
    if dropped or captured != received:
        raise Failed(tcpdump.describe())


@contextlib.contextmanager
def capturing(host, path, *arguments):
    """A capture of what happens inside."""
    capture = start_capture(host, path, *arguments)
    try:
        yield
        stop_capture(capture)
    finally:
        capture.kill()


def tshark(path, *arguments):
    """What tshark prints of a capture. It takes any payload that it likes for RPC over RDMA; RoCE
    itself is what counts here."""
    return subprocess.run(["tshark", "-r", path, "--disable-protocol", "rpcordma", *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          check=True).stdout
