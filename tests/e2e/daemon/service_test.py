# SPDX-License-Identifier: Apache-2.0
"""The daemon as a service: what the service manager is told, SIGHUP, --ready-fd."""
import contextlib
import ctypes
import os
import re
import signal
import socket
import struct
import tempfile
import unittest
from pathlib import Path

from labs.lab import UROCE, UROCED
from labs.process import Process, json_of, run, run_status, wait_until

WATCHDOG_US = 500_000
LOOKS = 3  # At a daemon that goes on, until a second one believes that it will.
IN_CLOSE_WRITE, IN_OPEN = 0x8, 0x20
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def opens_of(path):
    """Yields a function that returns how often a file has been opened since. A daemon that waits
    for the end of another one opens the lock of its socket again and again."""
    seen = bytearray()
    watch = _libc.inotify_init1(os.O_NONBLOCK)
    # Closes too: the kernel merges events that are equal to the one before.
    _libc.inotify_add_watch(watch, str(path).encode(), IN_CLOSE_WRITE | IN_OPEN)

    def count():
        with contextlib.suppress(BlockingIOError):
            seen.extend(os.read(watch, 1 << 16))
        return sum(mask == IN_OPEN for _, mask, _, _ in struct.iter_unpack("iIII", seen))

    try:
        yield count
    finally:
        os.close(watch)


class ServiceTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="uroce-e2e-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.socket = f"{self.directory}/uroced.sock"

    def start(self, *arguments, **environment):
        daemon = Process([UROCED, "--no-huge", "--socket", self.socket, *arguments],
                         {**os.environ, **environment})
        self.addCleanup(daemon.kill)
        return daemon

    def start_ready(self):
        daemon = self.start()
        wait_until(lambda: "uroced: ready, " in daemon.output(), "the line of a ready daemon")
        return daemon

    def start_as_service(self):
        """The socket of a service manager, and a daemon that it has started."""
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(f"{self.directory}/notify")
        manager.settimeout(30)
        daemon = self.start(NOTIFY_SOCKET=f"{self.directory}/notify",
                            WATCHDOG_USEC=str(WATCHDOG_US))
        return manager, daemon

    def test_the_service_manager_is_told(self):
        manager, daemon = self.start_as_service()
        told = []
        while told.count("WATCHDOG=1") < 3:
            told.append(manager.recv(4096).decode())
        ready = [text for text in told if text.startswith("READY=1\n")]
        self.assertEqual(len(ready), 1, told)
        self.assertIn(f"STATUS=ready, socket {self.socket}, devices uroce0 10.0.0.1/24", ready[0])
        self.assertIn("uroce0", run([UROCE, "--socket", self.socket, "devices"]))
        self.assertEqual(daemon.stop(), 0)
        while (text := manager.recv(4096).decode()) == "WATCHDOG=1":
            pass
        self.assertEqual(text, "STOPPING=1")

    def test_no_sign_of_life_comes_from_a_daemon_that_stands(self):
        manager, daemon = self.start_as_service()
        while not manager.recv(4096).startswith(b"READY=1"):
            pass
        daemon.signal(signal.SIGSTOP)
        wait_until(lambda: " (stopped)" in Path(f"/proc/{daemon.pid}/status").read_text(),
                   "a stopped daemon")
        manager.setblocking(False)
        with self.assertRaises(BlockingIOError):
            while manager.recv(4096):
                pass
        manager.settimeout(3 * WATCHDOG_US / 1e6)
        with self.assertRaises(TimeoutError):
            manager.recv(4096)
        daemon.signal(signal.SIGCONT)

    def test_sighup_ends_nothing(self):
        daemon = self.start_ready()
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "settings: none has changed" in daemon.output(), "a line about SIGHUP")
        self.assertIn("uroce0", run([UROCE, "--socket", self.socket, "devices"]))
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(os.listdir(self.directory), [], "nothing stays behind")

    def test_the_number_of_workers_that_it_chooses_is_told(self):
        daemon = self.start()
        wait_until(lambda: "uroced: ready, " in daemon.output(), "the line of a ready daemon")
        cpus = len(os.sched_getaffinity(daemon.pid))
        chosen = re.search(r"(\d+) workers?: auto, (\d+) usable CPUs?, (\d+) MiB of usable memory"
                           r"\n", daemon.output())
        self.assertIsNotNone(chosen, daemon.output())
        workers, usable, memory = map(int, chosen.groups())
        self.assertIn(usable, range(1, cpus + 1))
        self.assertEqual(workers, max(min(usable // 4, memory // 512, 8), 1))
        table = run([UROCE, "--socket", self.socket, "stat", "--workers"])
        self.assertTrue(table.startswith(chosen[0]), table)
        stat = json_of([UROCE, "--socket", self.socket, "stat", "--json"])
        self.assertEqual(len(stat["workers"]), workers)
        self.assertIn('workers = "auto"\n',
                      run([UROCE, "--socket", self.socket, "config", "show"]))
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "settings: none has changed" in daemon.output(), "a line about SIGHUP")
        self.assertEqual(daemon.stop(), 0)

    def test_one_that_is_told_to_end_makes_room_for_the_next(self):
        for _ in range(5):
            daemon = self.start_ready()
            daemon.signal(signal.SIGSTOP)  # It ends while the next one waits.
            daemon.signal(signal.SIGTERM)
            with opens_of(f"{self.socket}.lock") as opens:
                following = self.start()
                wait_until(lambda count=opens: count() > 1, "one that waits")
            daemon.signal(signal.SIGCONT)
            wait_until(lambda one=following: "uroced: ready, " in one.output(), "the next one")
            self.assertEqual(daemon.wait(30), 0)
            self.assertIn("uroce0", run([UROCE, "--socket", self.socket, "devices"]))
            self.assertTrue(os.path.exists(f"{self.socket}.lock"))
            self.assertEqual(following.stop(), 0)
            self.assertEqual(os.listdir(self.directory), [])

    # As of `kill PID && uroced`: the first may not even have noticed.
    def test_the_next_one_comes_right_behind_a_signal(self):
        daemon = self.start_ready()
        for how in 4 * (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            daemon.signal(how)
            following = self.start()
            wait_until(lambda one=following: "uroced: ready, " in one.output(), "the next one")
            self.assertEqual(daemon.wait(30), -how if how == signal.SIGKILL else 0)
            daemon = following
        self.assertEqual(daemon.stop(), 0)

    def test_one_that_stays_keeps_its_socket(self):
        self.start_ready()
        with opens_of(f"{self.socket}.lock") as opens:
            status, output = run_status([UROCED, "--no-huge", "--socket", self.socket])
            self.assertEqual(opens(), LOOKS, "it was not waited for")
        self.assertEqual(status, 1, output)
        self.assertIn(f"{self.socket}: another uroced serves it", output)
        self.assertIn("uroce0", run([UROCE, "--socket", self.socket, "devices"]))

    def test_ready_fd_gets_a_byte(self):
        path = f"{self.directory}/ready"
        daemon = Process(["sh", "-c", f'exec "$@" 9>{path}', "sh", UROCED, "--no-huge",
                          "--socket", self.socket, "--ready-fd", "9"])
        self.addCleanup(daemon.kill)
        wait_until(lambda: os.path.exists(path) and Path(path).read_bytes() == b"\n", "a byte")
        self.assertIn("uroce0", run([UROCE, "--socket", self.socket, "devices"]))

    def test_a_ready_fd_without_a_reader_is_refused(self):
        for command in ([UROCED, "--ready-fd", "77"],
                        ["sh", "-c", '"$@" 9</dev/null', "sh", UROCED, "--ready-fd", "9"]):
            status, output = run_status([*command, "--no-huge", "--socket", self.socket])
            self.assertEqual(status, 2, output)
            self.assertIn(f'--ready-fd: "{command[-1]}" is no file that is open for writing',
                          output)
            self.assertEqual(os.listdir(self.directory), [])
