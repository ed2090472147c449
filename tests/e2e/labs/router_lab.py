# SPDX-License-Identifier: Apache-2.0
"""Two hosts in their own networks, and a router between."""
from labs.lab import Host, Lab
from labs.netns import has_usable_addresses
from labs.process import wait_until


class RouterLab(Lab):
    """Two daemons beside the kernel, with a third namespace that forwards between them."""

    def __init__(self, mtu, *arguments):
        self.mtu = mtu
        self.arguments = arguments
        super().__init__()

    def _build(self):
        self.router = self._add_namespace()
        # arp_ignore: each interface answers for its own addresses alone.
        for setting in ("ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/conf/all/arp_ignore"):
            self.router.run(["sh", "-c", f"echo 1 >/proc/sys/net/{setting}"])
        self.a, self.b = (self._add_host(number) for number in (1, 2))
        self.server_address = "10.1.0.2"

    def _add_host(self, number):
        namespace = self._add_network(number)
        daemon = self._add_daemon(namespace, "--port", self._port(number), *self.arguments)
        return Host(namespace, daemon, "uroce0", f"10.{number}.0.2", f"fd00:{number}::2")

    def _port(self, _number):
        return "name=uroce0,iface=eth0"

    def _add_network(self, number):
        namespace = self._add_namespace()
        namespace.ip("link", "add", "eth0", "mtu", self.mtu, "type", "veth", "peer", "name",
                     f"eth{number}", "mtu", self.mtu, "netns", self.router.name)
        for space, interface, host in ((namespace, "eth0", 2), (self.router, f"eth{number}", 1)):
            space.ip("addr", "add", f"10.{number}.0.{host}/24", "dev", interface)
            space.ip("addr", "add", f"fd00:{number}::{host}/64", "dev", interface)
            space.ip("link", "set", interface, "up")
        namespace.ip("route", "add", "default", "via", f"10.{number}.0.1")
        namespace.ip("route", "add", "default", "via", f"fd00:{number}::1")
        wait_until(lambda: has_usable_addresses(namespace), "a link-local address")
        return namespace
