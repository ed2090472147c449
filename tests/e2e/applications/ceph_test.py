# SPDX-License-Identifier: Apache-2.0
"""Ceph with ms_type=async+rdma: objects are put, read and compared, over connections that Ceph
makes by its TCP handshake, on one NIC and from one to another, and by librdmacm."""
import filecmp
import os
import unittest

from labs import ceph_cluster
from labs.ceph_cluster import POOL, Cluster
from labs.lab import LONG, WireLab, next_port

SIZES = (1, 5_000_001) + ((4096, 40 << 20) if LONG else ())

# Ceph uses librdmacm for this type alone.
BY_RDMA_CM = ("ms_async_rdma_type = iwarp", "ms_async_rdma_cm = true")


class Ceph:
    """`server_settings` are lines of the daemons' ceph.conf, `client_settings` of the client's."""

    server_settings = ()
    client_settings = ()
    server_address = "127.0.0.1"

    @classmethod
    def setUpClass(cls):
        if reason := ceph_cluster.missing():
            raise unittest.SkipTest(reason)
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)
        cls.cluster = Cluster(cls.lab.a, f"{cls.lab.directory}/ceph", cls.server_address,
                              next_port(), cls.server_settings)
        cls.addClassCleanup(cls.cluster.stop)
        cls.client = cls.cluster.write_settings("client.conf", *cls.client_settings)

    def rados(self, *words):
        return self.lab.b.run("rados", "-c", self.client, "-p", POOL, *words)

    def sent(self):
        return [host.counters()["counters.port_xmit_bytes"] for host in (self.lab.a, self.lab.b)]

    def test_objects_come_back_as_they_were_put(self):
        before = self.sent()
        for size in SIZES:
            with self.subTest(size=size):
                put, got = (f"{self.lab.directory}/{name}" for name in ("put", "got"))
                with open(put, "wb") as file:
                    file.write(os.urandom(size))
                self.rados("put", f"object-{size}", put)
                self.rados("get", f"object-{size}", got)
                self.assertTrue(filecmp.cmp(put, got, shallow=False))
        self.check_sent([after - first for first, after in zip(before, self.sent())])

    def check_sent(self, sent):
        """The objects went over the NICs, `sent` bytes by each."""
        self.assertGreater(sent[0], sum(SIZES))
        self.assertGreater(sent[1], sum(SIZES))


class HandshakeTest(Ceph, unittest.TestCase):
    server_settings = ("ms_async_rdma_device_name = uroce0",)
    client_settings = ("ms_async_rdma_device_name = uroce1",)


class OneNicTest(Ceph, unittest.TestCase):
    server_settings = client_settings = ("ms_async_rdma_device_name = uroce0",)

    def check_sent(self, sent):
        self.assertGreater(sent[0], 2 * sum(SIZES))


class ConnectionManagerTest(Ceph, unittest.TestCase):
    server_settings = (*BY_RDMA_CM, "ms_async_rdma_device_name = uroce0")
    client_settings = (*BY_RDMA_CM, "ms_async_rdma_device_name = uroce1")
    server_address = "10.0.0.1"


if __name__ == "__main__":
    unittest.main()
