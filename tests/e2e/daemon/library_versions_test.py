# SPDX-License-Identifier: Apache-2.0
"""A library and a daemon of different releases: no device, and one clear line at each end. A relay
between the real two changes the version in what one of them says."""
import contextlib
import os
import socket
import struct
import threading
import unittest

from labs.control import ABI_VERSION
from labs.lab import BUILD, WireLab
from labs.process import run_status, wait_until

REPLY_HEADER = 128  # A uroce_reply; the version follows it, and in a request 8 bytes.
SHIM = BUILD / "verbs-shim" / "liburoce.so"


def with_version(message, offset, version):
    return message[:offset] + struct.pack("<I", version) + message[offset + 4:]


class Relay:
    """Stands before the daemon's socket for as many programs as come, one after the other."""

    def __init__(self, path, daemon, of_program, of_daemon):
        self.path = path
        self._daemon = daemon
        self._of_program = of_program
        self._of_daemon = of_daemon
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self):
        while True:
            try:
                program, _ = self._listener.accept()
            except OSError:
                return
            with program, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
                daemon.connect(self._daemon)
                with contextlib.suppress(ConnectionError):  # One of them hangs up.
                    daemon.send(with_version(program.recv(4096), 8, self._of_program))
                    self._answer(program, daemon, self._of_daemon)
                    while request := program.recv(65536):
                        daemon.send(request)
                        self._answer(program, daemon)

    @staticmethod
    def _answer(program, daemon, version=ABI_VERSION):
        """Gives the program the daemon's reply, as one of `version`."""
        reply, fds, _, _ = socket.recv_fds(daemon, 65536, 256)
        if version != ABI_VERSION:
            reply = with_version(reply, REPLY_HEADER, version)
        socket.send_fds(program, [reply], fds)
        for fd in fds:
            os.close(fd)


class VersionsTest(unittest.TestCase):
    def setUp(self):
        self.lab = WireLab()
        self.addCleanup(self.lab.tear_down)
        self.daemon = self.lab.daemons[0]

    def devices(self, of_program=ABI_VERSION, of_daemon=ABI_VERSION):
        """What ibv_devices says by a library and a daemon of these versions."""
        relay = Relay(f"{self.lab.directory}/relay.sock", self.daemon.socket, of_program, of_daemon)
        try:
            environment = os.environ | {"LD_PRELOAD": str(SHIM), "UROCE_SOCKET": relay.path}
            status, output = run_status(["ibv_devices"], env=environment)
        finally:
            relay.stop()
            os.unlink(relay.path)
        return status, output

    def test_the_relay_is_no_reason_to_refuse(self):
        status, output = self.devices()
        self.assertEqual(status, 0, output)
        self.assertIn("uroce0", output)

    def test_a_library_of_another_release_is_refused_with_one_line(self):
        for version in (ABI_VERSION - 1, ABI_VERSION + 1):
            _, output = self.devices(of_program=version)
            self.assertNotIn("uroce0", output)
            said = [line for line in output.splitlines() if line.startswith("uroce[")]
            self.assertEqual(len(said), 1, output)
            self.assertIn(f"liburoce.so speaks version {version} of the protocol, uroced "
                          f"{ABI_VERSION}; use the same release of both", said[0])
            wait_until(lambda: f"speaks version {version}" in self.daemon.process.output(),
                       "a warning in the daemon's log")

    def test_a_daemon_of_another_release_is_left_with_one_line(self):
        for version in (ABI_VERSION - 1, ABI_VERSION + 1):
            _, output = self.devices(of_daemon=version)
            self.assertNotIn("uroce0", output)
            said = [line for line in output.splitlines() if line.startswith("uroce[")]
            self.assertEqual(len(said), 1, output)
            self.assertIn(f"uroced speaks version {version} of the protocol, liburoce.so "
                          f"{ABI_VERSION}; use the same release of both", said[0])


if __name__ == "__main__":
    unittest.main()
