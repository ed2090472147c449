# SPDX-License-Identifier: Apache-2.0
"""What rdma-core's tools and ours say about the devices."""
import re
import unittest

from labs.lab import WireLab
from labs.process import Process, run, run_status, wait_until
from labs.programs import pingpong


class DevicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def test_ibv_devices_lists_both_nics(self):
        output = self.lab.a.run("ibv_devices")
        self.assertIn("uroce0", output)
        self.assertIn("uroce1", output)

    def test_ibv_devinfo_shows_active_ethernet_ports_with_rocev2_gids(self):
        output = self.lab.a.run("ibv_devinfo", "-v")
        for device in output.split("hca_id:")[1:]:
            self.assertIn("PORT_ACTIVE (4)", device)
            self.assertRegex(device, r"link_layer:\s+Ethernet")
            self.assertRegex(device, r"transport:\s+InfiniBand \(0\)")
            self.assertRegex(device, r"active_mtu:\s+4096")
            self.assertRegex(device, r"GID\[\s*\d+\]:\s+::ffff:10\.0\.0\.[12], RoCE v2")
            self.assertRegex(device, r"GID\[\s*\d+\]:\s+fd00::[12], RoCE v2")
        self.assertEqual(output.count("hca_id:"), 2)

    def test_uroce_devices_names_what_ibv_devinfo_shows(self):
        table = run(self.lab.a.uroce("devices"))
        for text in ("uroce0", "uroce1", "10.0.0.1", "10.0.0.2"):
            self.assertIn(text, table)
        self.assertIn("uroce0", str(self.lab.a.dump("devices")))

    def test_json_of_a_device_holds_its_port_and_its_network(self):
        device = self.lab.a.dump("devices")["devices"][0]
        self.assertEqual((device["name"], device["driver"], device["link"], device["mtu"],
                          device["active_mtu"], device["routes"]),
                         ("uroce0", "wire", "up", 9000, 4096, []))
        self.assertGreater(device["speed_bps"], 1e9)
        self.assertIn("10.0.0.1/24", device["addresses"])
        (gid,) = [gid for gid in device["gids"] if gid["address"] == "10.0.0.1"]
        self.assertEqual((gid["type"], gid["vlan"], gid["ifindex"]), ("RoCE v2", 0, 0))

    def test_watched_counters_are_shown_by_change_and_rate(self):
        watch = Process(self.lab.a.uroce("stat", "--watch", "0.2", "-d", "uroce0"))
        try:
            wait_until(lambda: "nothing counted" in watch.output(), "the first interval")
            pingpong(self.lab, "-n", 100)
            wait_until(lambda: re.search(r"(?m)^uroce0 +port_rcv_packets +\d+ +\S+ k?/s$",
                                         watch.output()), "a rate")
        finally:
            watch.kill()

    def test_listings_have_json_and_tables_without_any_object(self):
        for what in ("devices", "stat", "qp", "mr"):
            with self.subTest(what):
                self.lab.a.dump(what)
                run(self.lab.a.uroce(what))

    def test_environment_for_a_shell_does_what_run_does(self):
        script = f'eval "$({" ".join(self.lab.a.uroce("env"))})"; ibv_devices'
        self.assertIn("uroce0", run(self.lab.a.namespace.command(["sh", "-c", script])))

    def test_program_without_the_library_sees_no_device_of_ours(self):
        _, output = run_status(self.lab.a.namespace.command(["ibv_devices"]))
        self.assertNotIn("uroce", output)
