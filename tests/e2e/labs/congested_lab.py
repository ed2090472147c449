# SPDX-License-Identifier: Apache-2.0
"""Hosts on a bridge of the kernel whose port to the first host is slow, marks and drops."""
import json
import shutil
import subprocess
import unittest

from labs.lab import E2E, Host, Lab
from labs.netns import has_usable_addresses
from labs.process import run, wait_until

PROGRAMS = E2E / "programs"
MTU = 4200


class RedPort:
    """How the port sends: bits per second, bytes of its queue, and RED's two thresholds in bytes
    with the percentage at the upper one. `kmin` None: nothing is marked."""

    def __init__(self, rate=10**9, buffer=10**6, kmin=20_000, kmax=80_000, pmax=20):
        self.rate = rate
        self.buffer = buffer
        self.kmin = kmin
        self.kmax = kmax
        self.pmax = pmax

    def apply(self, namespace, interface, directory):
        """tbf holds the rate and drops; red_port.bpf.c in front of it marks, because few kernels
        have both tbf and red."""
        namespace.run(["tc", "qdisc", "replace", "dev", interface, "root", "handle", "1:", "tbf",
                       "rate", f"{self.rate}bit", "burst", 32768, "limit", self.buffer])
        if self.kmin is None:
            return
        program = f"{directory}/red_port.o"
        run(["clang", "-O2", "-g", "-Wall", "-Werror", "-target", "bpf",
             "-I/usr/include/x86_64-linux-gnu", f"-DRATE_BPS={self.rate}ull",
             f"-DKMIN_BYTES={self.kmin}", f"-DKMAX_BYTES={self.kmax}",
             f"-DPMAX_PERCENT={self.pmax}", "-c", PROGRAMS / "red_port.bpf.c", "-o", program])
        namespace.run(["tc", "qdisc", "add", "dev", interface, "clsact"])
        namespace.run(["tc", "filter", "add", "dev", interface, "egress", "bpf",
                       "direct-action", "object-file", program, "section", "tc"])

    @staticmethod
    def drops(namespace, interface):
        """Frames that found the buffer full."""
        text = subprocess.run(
            namespace.command(["tc", "-j", "-s", "qdisc", "show", "dev", interface]),
            capture_output=True, text=True, check=True).stdout
        return sum(qdisc.get("drops", 0) for qdisc in json.loads(text))


def missing():
    """What there is not, to make such a port."""
    return "" if shutil.which("clang") else "no clang: it compiles the program that marks"


class CongestedLab(Lab):
    """`senders` hosts and, as `hosts[0]`, the one behind the slow port: each a daemon in its own
    namespace. What they send is cut into packets before it enters the bridge, as on cables."""

    def __init__(self, senders, port=None, *arguments, congestion="dcqcn"):
        self.senders = senders
        self.red_port = port or RedPort()
        self.arguments = arguments
        self.congestion = congestion
        if reason := missing():
            raise unittest.SkipTest(reason)
        super().__init__()

    def _build(self):
        self.bridge = self._add_namespace()
        self.bridge.ip("link", "add", "br0", "mtu", MTU, "type", "bridge", "mcast_snooping", 0)
        self.bridge.ip("link", "set", "br0", "up")
        spaces = [self._join(number) for number in range(self.senders + 1)]
        self.red_port.apply(self.bridge, "host0", self.directory)
        self.hosts = []
        for number, namespace in enumerate(spaces):
            wait_until(lambda space=namespace: has_usable_addresses(space), "its own address")
            daemon = self._add_daemon(namespace, "--port",
                                      f"name=uroce0,iface=eth0,cc={self.congestion}",
                                      *self.arguments)
            self.hosts.append(Host(namespace, daemon, "uroce0", f"10.0.0.{number + 1}",
                                   f"fd00::{number + 1:x}"))
        self.use(0, 1)

    def _join(self, number):
        """A namespace whose eth0 is a port of the bridge."""
        namespace = self._add_namespace()
        namespace.ip("link", "add", "eth0", "mtu", MTU, "type", "veth", "peer", "name",
                     f"host{number}", "mtu", MTU, "netns", self.bridge.name)
        namespace.run(["ethtool", "-K", "eth0", "tx-udp-segmentation", "off", "tso", "off",
                       "gso", "off"])
        self.bridge.ip("link", "set", f"host{number}", "master", "br0", "up")
        namespace.ip("addr", "add", f"10.0.0.{number + 1}/24", "dev", "eth0")
        namespace.ip("addr", "add", f"fd00::{number + 1:x}/64", "dev", "eth0")
        namespace.ip("link", "set", "eth0", "up")
        return namespace

    def use(self, a, b):
        """Has programs run between these two."""
        self.a, self.b = self.hosts[a], self.hosts[b]

    @property
    def server_address(self):
        return self.a.address

    def tcp_address(self, host):
        return host.address

    def drops(self):
        """Frames that the slow port has dropped."""
        return RedPort.drops(self.bridge, "host0")
