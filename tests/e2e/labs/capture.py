# SPDX-License-Identifier: Apache-2.0
"""`uroce capture` under test, and tshark as the judge of its files."""
import contextlib
import re
import signal
import subprocess
import time

from labs.process import Failed, Process, wait_until

# The kernel gives tcpdump a block of packets that is not full after one second.
LATEST_PACKET_S = 3


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
    """Ends a tcpdump that writes to a file once it has had all packets of programs that have ended;
    fails if it lost some."""
    _wait_for_all(tcpdump)
    tcpdump.stop(60)
    if "\n0 packets dropped by kernel" not in tcpdump.output():
        raise Failed(tcpdump.describe())


def _wait_for_all(tcpdump):
    """As of what it says: SIGUSR1 has it say how many packets it had and how many there are. The
    daemon itself may send some more. The kernel also counts packets that came before tcpdump had
    set its filter, which tcpdump throws away: once it has had no other packet for long, it had
    all."""
    answers = 0
    had = None
    since = time.monotonic()

    def had_all():
        nonlocal answers, had, since
        tcpdump.signal(signal.SIGUSR1)
        counts = re.findall(r"(\d+) packets? captured, (\d+) packets? received by filter",
                            tcpdump.output())
        if len(counts) == answers or counts[-1][0] == "0":
            return False
        answers = len(counts)
        if counts[-1] != had:
            had = counts[-1]
            since = time.monotonic()
        return had[0] == had[1] or time.monotonic() - since > LATEST_PACKET_S

    wait_until(had_all, "tcpdump to have had all packets")


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
