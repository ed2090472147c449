# SPDX-License-Identifier: Apache-2.0
"""uroced and a Soft-RoCE guest in one network: `rxe` and `uroce` are the hosts, `a` the one that
serves and `b` its client."""
import contextlib
import os
import unittest

from labs.capture import stop_complete_capture
from guest import SCRIPTS, Guest, missing
from labs.lab import UNPRIVILEGED, Host, Lab
from labs.netns import has_usable_addresses
from labs.process import Process, run, run_status, wait_until

RXE_ADDRESS, RXE_ADDRESS6 = "10.0.0.1", "fd00::1"
UROCE_ADDRESS, UROCE_ADDRESS6 = "10.0.0.2", "fd00::2"
# perftest sets the remote device's limit of READs in flight on the own queue pair, which works
# between devices of one limit only: rxe has 128. As many as uroce's are asked for instead.
READS_IN_FLIGHT = 16


class RxeLab(Lab):
    """What the ways to attach a guest have in common."""

    def __init__(self, mtu, *arguments):
        self.mtu = mtu
        self.arguments = arguments
        self.rxe = None
        if reason := missing():
            raise unittest.SkipTest(reason)
        super().__init__()

    def _finish(self, host_namespace, daemon, *attachment):
        self.uroce = Host(host_namespace, daemon, "uroce0", UROCE_ADDRESS, UROCE_ADDRESS6)
        self.uroce.dump("devices")  # Answered when the port is open: the guest looks for it once.
        self.rxe = Guest(self.directory, RXE_ADDRESS, RXE_ADDRESS6, "--mtu", self.mtu, *attachment)
        self.exchange_root = self.rxe.share
        self.a, self.b = self.rxe, self.uroce

    @property
    def server_address(self):
        return self.a.address

    def both_ways(self):
        """Yields which side serves, and has it so meanwhile."""
        for self.a, self.b in ((self.rxe, self.uroce), (self.uroce, self.rxe)):
            yield self.a.device

    def tear_down(self):
        if self.rxe:
            self.rxe.stop()
            self.rxe = None
        super().tear_down()


class BridgeLab(RxeLab):
    """The guest's tap and a veth pair on a bridge; uroced works on the other end of the pair, in a
    namespace that stands for its machine."""

    port = "iface=eth0"

    def _build(self):
        self.bridge, host = self._add_namespace(), self._add_namespace()
        self._make_bridge(host)
        daemon = self._add_daemon(host, "--port", f"name=uroce0,{self.port}",
                                  *self.arguments)
        self._finish(host, daemon, "--netns", self.bridge.name, "--tap", "guest0")

    def _make_bridge(self, host):
        bridge = self.bridge
        bridge.ip("link", "add", "br0", "mtu", self.mtu, "type", "bridge", "mcast_snooping", 0)
        bridge.run(["ip", "tuntap", "add", "guest0", "mode", "tap"])
        host.ip("link", "add", "eth0", "mtu", self.mtu, "type", "veth", "peer", "name", "host0",
                "netns", bridge.name)
        for port in ("guest0", "host0"):
            bridge.ip("link", "set", port, "mtu", self.mtu, "master", "br0", "up")
        bridge.ip("link", "set", "br0", "up")
        host.ip("addr", "add", f"{UROCE_ADDRESS}/24", "dev", "eth0")
        host.ip("addr", "add", f"{UROCE_ADDRESS6}/64", "dev", "eth0")
        host.ip("link", "set", "eth0", "up")
        wait_until(lambda: has_usable_addresses(host), "a link-local address")


class UdpLab(BridgeLab):
    """The same by UDP sockets: the daemon runs as the user nobody, without any capability."""

    port = "udp=eth0"
    daemon_prefix = UNPRIVILEGED
    daemon_owner = 65534

    def _add_daemon(self, namespace, *arguments):
        os.chmod(self.directory, 0o711)
        return super()._add_daemon(namespace, *arguments)


class VhostLab(RxeLab):
    """The guest's NIC is uroced's port: frames go through shared memory, no kernel but the guest's
    sees them, and uroced itself answers for its addresses."""

    def _build(self):
        host, socket = self._add_namespace(), f"{self.directory}/vhost.sock"
        daemon = self._add_daemon(
            host, "--port", f"name=uroce0,dev=net_vhost0;iface={socket},mtu={self.mtu},"
            f"ip={UROCE_ADDRESS}/24+{UROCE_ADDRESS6}/64", *self.arguments)
        self._finish(host, daemon, "--vhost-user", socket)


class VhostTapLab(RxeLab):
    """The same with the exception path: the kernel beside uroced answers for the addresses, on a
    TAP, and programs of both sides meet by TCP through it."""

    def _build(self):
        host, socket = self._add_namespace(), f"{self.directory}/vhost.sock"
        daemon = self._add_daemon(
            host, "--port", f"name=uroce0,dev=net_vhost0;iface={socket},mtu={self.mtu},"
            "exception=tap0", *self.arguments)
        wait_until(lambda: "tap0" in host.ip("link"), "the TAP")
        for address in (f"{UROCE_ADDRESS}/24", f"{UROCE_ADDRESS6}/64"):
            host.ip("addr", "add", address, "dev", "tap0")
        self._finish(host, daemon, "--vhost-user", socket)
        wait_until(self._is_reachable, "the guest's way to the TAP")

    def _is_reachable(self):
        return all(run_status(self.uroce.namespace.command(
            ["ping", "-c", 1, "-w", 2, address]))[0] == 0 for address in
                   (RXE_ADDRESS, RXE_ADDRESS6))


class BridgeCapture:
    """Everything that crosses the bridge while the `with` block runs, in its own file. It is
    looked at where it goes to the guest and comes from it: the kernel has cut superframes there."""

    def __init__(self, lab):
        self._lab = lab
        self.path = f"{lab.directory}/bridge.pcap"
        self._process = None

    def __enter__(self):
        if os.path.exists(self.path):
            os.remove(self.path)
        self._process = Process(self._lab.bridge.command(
            ["tcpdump", "-i", "guest0", "-s", 0, "-B", 262144, "-Z", "root", "-w", self.path,
             "udp", "port", "4791"]))
        wait_until(lambda: "listening on" in self._process.output(), "tcpdump")
        return self

    def __exit__(self, *_):
        stop_complete_capture(self._process)

    def check_icrcs(self):
        """Fails when the lab's own program finds a wrong ICRC or IPv4 checksum, or no packet."""
        return run([SCRIPTS / "icrc_check.py", self.path], 300)


@contextlib.contextmanager
def watched(lab):
    """With the ICRC of each packet looked at, where packets cross a bridge."""
    if not isinstance(lab, BridgeLab):
        yield
        return
    with BridgeCapture(lab) as capture:
        yield
    print(f"   {capture.check_icrcs().splitlines()[-1]}", flush=True)
