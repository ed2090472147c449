# SPDX-License-Identifier: Apache-2.0
"""Two daemons in one namespace, each its own host on a port of any kind; either can be killed
and started again."""
from labs.lab import Daemon, Host, Lab, find_list
from labs.process import wait_until


class PortLab(Lab):
    """`devices` are the two devices; DIR in them is a directory of this lab. `prepare` makes what
    they stand on, `connect` what joins them once they are there; both are given the namespace.
    `mtu` None leaves the device its own."""

    def __init__(self, devices, mtu=1500, prepare=None, connect=None, arguments=()):
        self.devices = devices
        self.port_mtu = mtu
        self.prepare = prepare
        self.connect = connect
        self.arguments = arguments
        super().__init__()

    def _build(self):
        self.namespace = self._add_namespace()
        self.server_address = "127.0.0.1"
        if self.prepare:
            self.prepare(self.namespace)
        self.a = self._add_host(1)
        self.b = self._add_host(2)
        if self.connect:
            self.connect(self.namespace)
        self.wait_ready()

    def port(self, number):
        device = self.devices[number - 1].replace("DIR", self.directory)
        mtu = "" if self.port_mtu is None else f",mtu={self.port_mtu}"
        return f"name=uroce0,dev={device}{mtu},ip=10.0.0.{number}/24+fd00::{number}/64"

    def _add_host(self, number):
        daemon = self._add_daemon(self.namespace, "--port", self.port(number), *self.arguments)
        host = Host(self.namespace, daemon, "uroce0", f"10.0.0.{number}", f"fd00::{number}")
        port_of(host)  # It answers when its ports are open.
        return host

    def kill(self, host):
        """As a crash does: nothing is cleaned up."""
        host.daemon.process.kill()
        self.daemons.remove(host.daemon)

    def restart(self, host):
        number = 1 if host is self.a else 2
        host.daemon = Daemon(self.namespace, f"{self.directory}/again-{number}",
                             ["--port", self.port(number), *self.arguments])
        self.daemons.append(host.daemon)
        host.forget_gids()

    def wait_ready(self):
        """Until both links are up, and no other host has claimed the addresses."""
        self.wait_link("up")
        for host in (self.a, self.b):
            wait_until(lambda host=host: {host.address, host.address6} <= addresses_of(host),
                       "addresses that may be used")

    def wait_link(self, state, *hosts):
        for host in hosts or (self.a, self.b):
            wait_until(lambda host=host: port_of(host)["link"] == state, f"a link that is {state}")


def addresses_of(host):
    return {gid["address"] for gid in port_of(host)["gids"]}


def port_of(host):
    """What `uroce devices` says of the host's port."""
    return find_list(host.dump("devices"))[0]
