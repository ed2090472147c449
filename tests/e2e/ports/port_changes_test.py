# SPDX-License-Identifier: Apache-2.0
"""Ports that are added and removed while the daemon runs: programs on them, programs on other
ports, programs that have a removed one open; what is refused changes nothing; nothing is left."""
import copy
import json
import os
import unittest

from labs.lab import BUILD, UNPRIVILEGED, UROCE, Host, UdpLab, VethLab, WireLab
from labs.port_watch import PortWatch
from labs.process import Process, run, run_status, wait_until
from labs.programs import data_check, endless_writes, perftest_rows, pingpong, seed
from labs.switch_lab import SwitchLab

REMOVED_PORT = BUILD / "tests" / "e2e" / "removed_port"
# Of a queue pair that has repeated something, or whose peer has.
REPEATS = ("retransmitted_pkts", "packet_seq_err", "local_ack_timeout_err", "tail_loss_probes",
           "duplicate_request", "out_of_sequence", "req_cqe_error")
# An ACK timeout of seconds: a worker that has no CPU for a while repeats nothing.
UNHURRIED = ("-u", 20)


def uroce(host, *words):
    return run([UROCE, "--socket", host.daemon.socket, *words])


def refused(host, *words):
    """The one line by which it is refused."""
    status, output = run_status([UROCE, "--socket", host.daemon.socket, *words])
    if status != 2 or len(output.splitlines()) != 1:
        raise AssertionError(f"{words}: {status}: {output}")
    return output


def names(host):
    return [device["name"] for device in host.dump("devices")["devices"]]


def tree(host, name):
    return f"{host.daemon.socket}.d/sys/class/infiniband/{name}"


def second_ports(lab, name="uroce1"):
    """The lab as programs on the ports of that name see it."""
    seen = copy.copy(lab)
    seen.a, seen.b = (Host(host.namespace, host.daemon, name, f"10.1.0.{number}",
                           f"fd01::{number}") for number, host in ((1, lab.a), (2, lab.b)))
    return seen


class TwoAddresses(UdpLab):
    """Daemons of the user nobody; each end has addresses for two ports. Buffers of ports are
    mappings, which go back to the kernel whole."""

    daemon_prefix = (*UNPRIVILEGED, "env", "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=32768")

    def __init__(self, *arguments):
        super().__init__(4200, *arguments, place="10.0.0.{}+fd00::{}")
        for number, namespace in enumerate(self.namespaces, 1):
            namespace.ip("addr", "add", f"10.1.0.{number}/24", "dev", "eth0")
            namespace.ip("addr", "add", f"fd01::{number}/64", "dev", "eth0", "nodad")

    def spec(self, host, *more):
        number = 1 if host is self.a else 2
        return [f"name=uroce1,udp=10.1.0.{number}+fd01::{number}", *more]

    def add(self):
        for host in (self.a, self.b):
            uroce(host, "port", "add", *self.spec(host))

    def remove(self):
        for host in (self.a, self.b):
            uroce(host, "port", "remove", "uroce1")


def await_more_writes(server, client):
    """Waits until endless writes have gone on for a second more."""
    rows = len(perftest_rows(client.output()))
    wait_until(lambda: not server.running() or len(perftest_rows(client.output())) > rows + 1,
               "writes that go on")
    if not server.running():
        raise AssertionError(server.output())


class AddedPortTest(unittest.TestCase):
    workers = ()

    @classmethod
    def setUpClass(cls):
        cls.lab = TwoAddresses(*cls.workers)
        cls.addClassCleanup(cls.lab.tear_down)

    @classmethod
    def tearDownClass(cls):
        cls.lab.close()  # Fails when a daemon has crashed.

    def tearDown(self):
        for host in (self.lab.a, self.lab.b):
            if "uroce1" in names(host):
                uroce(host, "port", "remove", "uroce1")

    def test_programs_use_it_and_others_go_on(self):
        self.lab.add()
        second = second_ports(self.lab)
        for version in (4, 6):
            pingpong(second, "-n", 300, "-s", 3000, version=version)
            data_check(second, "--seed", seed(), "--ops", 100, version=version)
            pingpong(self.lab, "-n", 100, version=version)
        self.assertGreater(second.a.counters()["counters.port_rcv_packets"], 300)

    def test_programs_learn_of_another_rate(self):
        host = self.lab.a
        watch = PortWatch(host)
        self.addCleanup(watch.close)
        self.addCleanup(uroce, host, "port", "set", "uroce0", "rate=off")
        uroce(host, "port", "set", "uroce0", "rate=2G")
        wait_until(lambda: watch.events("speed of port 1 is 2000 Mb/s"), "an event")
        uroce(host, "port", "set", "uroce0", "rate=2G")
        uroce(host, "port", "set", "uroce0", "rate=1M")
        wait_until(lambda: watch.events("speed of port 1 is 100 Mb/s"), "an event")
        self.assertEqual(watch.events("speed"), 2)

    def test_it_is_shown_while_it_is_there(self):
        host = self.lab.a
        before = uroce(host, "config", "show")
        events = Process([UROCE, "--socket", host.daemon.socket, "monitor"])
        self.addCleanup(events.kill)
        wait_until(lambda: host.run("ibv_devices") and "program_joined" in events.output(),
                   "a monitor that watches")
        uroce(host, "port", "add", *self.lab.spec(host, "rate=5G", "fault=delay=10us"))
        self.assertEqual(names(host), ["uroce0", "uroce1"])
        self.assertIn("uroce1", host.run("ibv_devices"))
        uroce(host, "port", "set", "uroce1", "rate=2G")
        shown = json.loads(uroce(host, "config", "show", "--json"))
        self.assertEqual(shown["port"][1], {"name": "uroce1", "udp": "10.1.0.1+fd01::1",
                                            "rate": 2_000_000_000})
        self.assertEqual(shown["fault"], ["uroce1:delay=10us"])
        counters = f"{tree(host, 'uroce1')}/ports/1/counters/port_rcv_packets"
        self.assertTrue(os.path.exists(counters))
        self.assertEqual(host.dump("stat")["devices"][1]["name"], "uroce1")
        uroce(host, "port", "remove", "uroce1")
        self.assertFalse(os.path.exists(tree(host, "uroce1")))
        self.assertEqual(names(host), ["uroce0"])
        self.assertEqual([each["name"] for each in host.dump("stat")["devices"]], ["uroce0"])
        self.assertEqual(uroce(host, "config", "show"), before)
        self.assertNotIn("uroce1", host.run("ibv_devices"))
        wait_until(lambda: "port_removed" in events.output(), "the events")
        told = [json.loads(line) for line in events.output().splitlines()]
        self.assertEqual([(each["event"], each["device"]) for each in told
                          if each["event"].startswith("port_")],
                         [("port_added", "uroce1"), ("port_removed", "uroce1")])

    def test_a_program_that_has_it_open(self):
        host = self.lab.a
        for _ in range(3):
            uroce(host, "port", "add", *self.lab.spec(host))
            program = host.start(REMOVED_PORT, "uroce1")
            self.addCleanup(program.kill)
            wait_until(lambda running=program: "open" in running.output()
                       or not running.running(), "the program")
            uroce(host, "port", "remove", "uroce1")
            wait_until(lambda running=program: "removed" in running.output()
                       or not running.running(), "its end of the device")
            self.assertIn("removed", program.output())
            uroce(host, "port", "add", *self.lab.spec(host))
            self.assertIn("back", program.expect_success(30))
            uroce(host, "port", "remove", "uroce1")

    def test_programs_with_traffic_on_it_end(self):
        self.lab.add()
        second = second_ports(self.lab)
        server, client = endless_writes(self, second)
        uroce(self.lab.a, "port", "remove", "uroce1")
        self.assertNotEqual(server.wait(30) | client.wait(60), 0)
        uroce(self.lab.a, "port", "add", *self.lab.spec(self.lab.a))
        pingpong(second)

    def test_wrong_ones_are_refused_and_change_nothing(self):
        host = self.lab.a
        before = (uroce(host, "config", "show"), host.dump("devices")["devices"], fds(host))
        for spec, complaint in (
                ("udp=10.1.0.1", "name=... is missing"),
                ("name=uroce1", "iface=..., udp=... or dev=... is missing"),
                ("name=uroce0,udp=10.1.0.1", "uroce0"),
                ("name=uroce1,udp=10.1.0.1,colour=red", "unknown key \"colour\""),
                ("name=uroce1,udp=nowhere0", "no interface \"nowhere0\""),
                ("name=uroce1,udp=192.0.2.99", "udp=192.0.2.99"),
                ("name=uroce1,udp=10.0.0.1", "belongs to"),
                ("name=uroce1,udp=10.1.0.1,mtu=9600", "mtu: "),
                ("name=uroce1,dev=net_memif0;role=server;socket=/tmp/m;bsize=4352,"
                 "ip=10.9.0.1/24,mtu=1500,queues=9",
                 "queues=9: "),
                ("name=uroce1,udp=10.1.0.1,fault=drop=2", "drop"),
                ("name=uroce1,iface=eth0", "CAP_NET_RAW"),
                ("name=uroce1,dev=net_tap0;iface=t0", "dev=net_tap0"),
                ("name=uroce1,dev=0000:3b:00.0,ip=10.9.0.1/24", "dev=0000:3b:00.0"),
                ("name=uroce1,udp=10.1.0.1,nonsense", "nonsense")):
            with self.subTest(spec):
                self.assertIn(complaint, refused(host, "port", "add", spec))
                self.assertEqual(uroce(host, "config", "show"), before[0])
                self.assertEqual(host.dump("devices")["devices"], before[1])
        self.assertIn("there is no NIC \"uroce9\"", refused(host, "port", "remove", "uroce9"))
        wait_until(lambda: fds(host) <= before[2], "no more files than before")
        pingpong(self.lab)

    def test_cycles_leave_nothing(self):
        second = second_ports(self.lab)

        def cycle():
            self.lab.add()
            pingpong(second, "-n", 50)
            self.lab.remove()

        cycle()
        ends = (self.lab.a, self.lab.b)
        before = [(fds_at_rest(host), tasks(host), [memory_kb(host)]) for host in ends]
        for _ in range(20):
            cycle()
            for host, (_, _, its_kb) in zip(ends, before):
                its_kb.append(memory_kb(host))
        for host, (its_fds, its_tasks, its_kb) in zip(ends, before):
            wait_until(lambda end=host, most=its_fds: fds(end) <= most, "no more files than before")
            wait_until(lambda end=host, most=its_tasks: tasks(end) <= most,
                       "no more threads than before")
            self.assertLess(growth_kb([*its_kb, memory_kb(host)]), 900)
            # A worker holds a burst of empty frames ready.
            wait_until(lambda its=host: its.dump("stat")["held"]["frames"] <= 32,
                       "no frames in use")


class AddedPortOfTwoWorkersTest(AddedPortTest):
    workers = ("--workers", "2")


def fds(host):
    return len(os.listdir(f"/proc/{host.daemon.process.pid}/fd"))


def fds_at_rest(host):
    """What a program or a port leaves goes soon after its end."""
    looks = []

    def rests():
        looks.append(fds(host))
        return looks[-60:].count(looks[-1]) == 60

    wait_until(rests, "the daemon to rest")
    return looks[-1]


def tasks(host):
    return len(os.listdir(f"/proc/{host.daemon.process.pid}/task"))


def memory_kb(host):
    """What the daemon has allocated. Pools of frames have their size from the start."""
    with open(f"/proc/{host.daemon.process.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))


def growth_kb(looks):
    """From the first to the last one, without the largest step.

    The heap grows once, by 1.3 MB, when a request fits into none of its holes. What each cycle
    leaves makes it grow in many steps.
    """
    steps = [after - before for before, after in zip(looks, looks[1:])]
    return sum(steps) - max(0, *steps)


class PrivilegedTest(unittest.TestCase):
    """A daemon that has kept what packet sockets need, since it started with one."""

    def test_an_interface(self):
        lab = VethLab(1500)
        self.addCleanup(lab.tear_down)
        left, right = lab.namespaces
        left.ip("link", "add", "eth1", "mtu", 1500, "type", "veth", "peer", "name", "eth1",
                "netns", right.name)
        for number, host in ((1, lab.a), (2, lab.b)):
            host.namespace.ip("addr", "add", f"10.1.0.{number}/24", "dev", "eth1")
            host.namespace.ip("addr", "add", f"fd01::{number}/64", "dev", "eth1", "nodad")
            host.namespace.ip("link", "set", "eth1", "up")
            uroce(host, "port", "add", "name=uroce1,iface=eth1")
        second = second_ports(lab)
        for host in (second.a, second.b):
            wait_until(lambda end=host: "PORT_ACTIVE" in end.run("ibv_devinfo", "-d", "uroce1"),
                       "a link")
        pingpong(second)
        for host in (lab.a, lab.b):
            uroce(host, "port", "remove", "uroce1")
        pingpong(lab)
        lab.close()


class InsideTest(unittest.TestCase):
    def test_others_notice_nothing(self):
        """A wire loses nothing, whatever else the machine does."""
        lab = WireLab(keys=["selective-repeat=off"])
        self.addCleanup(lab.tear_down)
        namespace = lab.namespaces[0]
        namespace.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        namespace.ip("addr", "add", "192.0.2.1/24", "dev", "eth0")
        namespace.ip("link", "set", "eth0", "up")
        before = [host.counters() for host in (lab.a, lab.b)]
        server, client = endless_writes(self, lab, *UNHURRIED)
        spec = ("port", "add", "name=guest,udp=192.0.2.1")
        for _ in range(5):
            uroce(lab.a, *spec)
            program = lab.a.start(REMOVED_PORT, "guest")
            self.addCleanup(program.kill)
            wait_until(lambda running=program: "open" in running.output(), "the program")
            uroce(lab.a, "port", "remove", "guest")
            wait_until(lambda running=program: "removed" in running.output(), "its end")
            program.kill()
        await_more_writes(server, client)
        for host, its in zip((lab.a, lab.b), before):
            after = host.counters()
            changed = {name: after[name] - its[name] for name in after
                       if name.removeprefix("counters.") in REPEATS and after[name] != its[name]}
            self.assertEqual(changed, {}, host.device)
        lab.close()

    def test_a_wire_is_added_and_its_ends_removed(self):
        lab = WireLab()
        self.addCleanup(lab.tear_down)
        before = uroce(lab.a, "config", "show")
        uroce(lab.a, "port", "add", "--wire", "left=10.1.0.1/24+fd01::1/64",
              "right=10.1.0.2/24+fd01::2/64", "right.rate=5G")
        second = second_ports(lab)
        second.a.device, second.b.device = "left", "right"
        pingpong(second)
        shown = json.loads(uroce(lab.a, "config", "show", "--json"))
        self.assertEqual(shown["wire"][1], {"left": "10.1.0.1/24+fd01::1/64",
                                            "right": "10.1.0.2/24+fd01::2/64",
                                            "right.rate": "5G"})
        uroce(lab.a, "port", "remove", "left")
        uroce(lab.a, "port", "remove", "right")
        self.assertEqual(uroce(lab.a, "config", "show"), before)
        self.assertIn("a wire has two ends",
                      refused(lab.a, "port", "add", "--wire", "x=10.1.0.1/24"))
        pingpong(lab)
        lab.close()

    def test_the_other_end_of_a_removed_one_has_no_link(self):
        for workers in (1, 2):
            with self.subTest(workers):
                lab = WireLab("--workers", workers)
                self.addCleanup(lab.tear_down)
                server, client = endless_writes(self, lab)
                uroce(lab.a, "port", "remove", "uroce1")
                self.assertNotEqual(server.wait(60) | client.wait(60), 0)
                wait_until(lambda host=lab.a: "PORT_DOWN" in
                           host.run("ibv_devinfo", "-d", "uroce0"), "no link")
                self.assertIn("the other end of the wire was removed",
                              lab.a.daemon.process.output())
                wait_until(lambda host=lab.a, most=32 * workers:
                           host.dump("stat")["held"]["frames"] <= most,
                           "no frames in use")
                lab.close()

    def test_a_memif_beside_a_wire(self):
        lab = WireLab()
        self.addCleanup(lab.tear_down)
        other = lab._add_daemon(lab.namespaces[0], "--wire", "x=10.7.0.1/24,y=10.7.0.2/24")
        second = second_ports(lab, "memif")
        second.b.daemon = other
        for host, role in ((second.a, "server"), (second.b, "client")):
            uroce(host, "port", "add", f"name=memif,dev=net_memif0;role={role};bsize=4352;"
                  f"socket={lab.directory}/m.sock,ip={host.address}/24+{host.address6}/64")
        for host in (second.a, second.b):
            wait_until(lambda end=host: f"::ffff:{end.address}" in
                       end.run("ibv_devinfo", "-v", "-d", "memif"), "an address")
            wait_until(lambda end=host: "PORT_ACTIVE" in
                       end.run("ibv_devinfo", "-d", "memif"), "a link")
        pingpong(second)
        uroce(second.a, "port", "remove", "memif")
        wait_until(lambda: "PORT_DOWN" in second.b.run("ibv_devinfo", "-d", "memif"), "no link")
        lab.close()


GUEST = "name=guest,switch=sw0,ip=10.0.0.9/24+fd00::9/64"


class AtASwitchTest(unittest.TestCase):
    workers = ()

    def lab(self, switch, *arguments):
        lab = SwitchLab(switch, arguments=(*self.workers, *arguments))
        self.addCleanup(lab.tear_down)
        return lab

    @staticmethod
    def guest(lab):
        """The added NIC, once it uses its addresses."""
        def has_addresses():
            (device,) = [each for each in lab.a.dump("devices")["devices"]
                         if each["name"] == "guest"]
            return len(device["addresses"]) == 2 and device["link"] == "up"

        wait_until(has_addresses, "the addresses of the NIC")
        return Host(lab.namespaces[0], lab.a.daemon, "guest", "10.0.0.9", "fd00::9")

    def test_another_nic_takes_the_port_of_a_removed_one(self):
        lab = self.lab("ports=3")
        first = lab.hosts[0]
        self.assertIn("switch=sw0: its 3 ports have NICs",
                      refused(first, "port", "add", GUEST))
        lab.set("sw0:1", "rate=5G")
        uroce(first, "port", "remove", "uroce1")
        port = lab.port("sw0:1")
        self.assertEqual((port["leads_to"], port["link"]), ("", "down"))
        self.assertEqual(names(first), ["uroce0", "uroce2"])
        self.assertIn("there is no NIC at the port", refused(first, "switch", "set", "sw0:1",
                                                             "link=up"))
        self.assertIn("belongs to", refused(first, "port", "add",
                                            "name=guest,switch=sw0,ip=10.0.0.3/24"))
        self.assertIn("no key of a NIC at a switch", refused(first, "port", "add",
                                                             GUEST + ",mtu=1500"))
        self.assertEqual(lab.port("sw0:1")["leads_to"], "")
        uroce(first, "port", "add", GUEST, "rate=2G")
        guest = self.guest(lab)
        self.assertEqual(lab.port("guest")["name"], "sw0:1")
        self.assertEqual(lab.port("guest")["rate_bps"], 5_000_000_000)
        packets = lab.port("guest")["xmit_packets"]
        for lab.a, lab.b in ((lab.hosts[0], guest), (guest, lab.hosts[2])):
            for version in (4, 6):
                pingpong(lab, "-n", 50, "-s", 3000, version=version)
            data_check(lab, "--seed", seed(), "--ops", 100)
        self.assertGreater(lab.port("guest")["xmit_packets"], packets + 200)
        self.assertGreater(guest.counters()["counters.port_rcv_packets"], 200)
        self.assertEqual(json.loads(uroce(first, "config", "show", "--json"))["port"][-1],
                         {"name": "guest", "switch": "sw0", "ip": "10.0.0.9/24+fd00::9/64",
                          "rate": "2G"})
        lab.set("guest", "link=down")
        wait_until(lambda: "PORT_DOWN" in guest.run("ibv_devinfo", "-d", "guest"), "no link")
        lab.set("guest", "link=up")
        uroce(first, "port", "remove", "guest")
        lab.use(0, 2)
        pingpong(lab)
        lab.close()

    def test_the_settings_that_are_shown_make_the_same_nics(self):
        lab = self.lab("ports=3,cc=dcqcn,uroce1.rate=3G,uroce2.rate=2G")
        uroce(lab.a, "port", "remove", "uroce0")
        uroce(lab.a, "port", "add", GUEST)
        uroce(lab.a, "port", "set", "uroce1", "cc=off")
        shown = uroce(lab.a, "config", "show", "--json")
        self.assertEqual(json.loads(shown)["switch"], [{"cc": "dcqcn", "ports": 0}])
        path = f"{lab.directory}/shown.toml"
        with open(path, "w", encoding="ascii") as file:
            file.write(uroce(lab.a, "config", "show"))
        another = copy.copy(lab.a)
        another.daemon = lab._add_daemon(lab.namespaces[0], "--config", path)
        self.assertEqual(names(another), ["uroce1", "uroce2", "guest"])
        again = json.loads(uroce(another, "config", "show", "--json"))
        for kind in ("switch", "port"):
            self.assertEqual(again[kind], json.loads(shown)[kind])
        lab.close()

    def test_others_notice_nothing(self):
        """A switch without ECN and with a large buffer loses nothing either."""
        lab = self.lab("ports=3,buffer=64M,ecn=off,selective-repeat=off,rate=40G")
        before = [host.counters() for host in (lab.a, lab.b)]
        server, client = endless_writes(self, lab, *UNHURRIED)
        program = lab.a.start(REMOVED_PORT, "uroce1")
        self.addCleanup(program.kill)
        wait_until(lambda: "open" in program.output(), "the program")
        for name in ("uroce1", "guest", "guest", "guest"):
            uroce(lab.a, "port", "remove", name)
            uroce(lab.a, "port", "add", GUEST)
        self.assertIn("removed", program.output())
        await_more_writes(server, client)
        for host, its in zip((lab.a, lab.b), before):
            after = host.counters()
            changed = {name: after[name] - its[name] for name in after
                       if name.removeprefix("counters.") in REPEATS and after[name] != its[name]}
            self.assertEqual(changed, {}, host.device)
            port = lab.port(host.device)
            self.assertEqual([port[name] for name in port if name.endswith("_drops")], [0, 0, 0])
        lab.close()

    def test_frames_to_a_removed_one_are_counted_as_drops(self):
        lab = self.lab("ports=3")
        lab.use(1, 0)
        server, client = endless_writes(self, lab)
        before = lab.port("sw0:1")["down_drops"]
        uroce(lab.a, "port", "remove", "uroce1")
        self.assertNotEqual(server.wait(60) | client.wait(60), 0)
        self.assertGreater(lab.port("sw0:1")["down_drops"], before)
        wait_until(lambda: lab.b.dump("stat")["held"]["frames"] <= 64,
                   "no frames in use")
        uroce(lab.a, "port", "add", GUEST)
        lab.a = self.guest(lab)
        pingpong(lab)
        lab.close()

    def test_a_daemon_starts_with_what_was_added_elsewhere(self):
        lab = self.lab("name=sw0,ports=2", "--port", GUEST)
        lab.a = self.guest(lab)
        self.assertEqual(lab.port("guest")["name"], "sw0:2")
        pingpong(lab)
        lab.close()

    def test_cycles_leave_nothing(self):
        lab = self.lab("ports=3")

        def cycle():
            uroce(lab.a, "port", "remove", names(lab.a)[-1])
            uroce(lab.a, "port", "add", GUEST)
            lab.b = self.guest(lab)
            pingpong(lab, "-n", 20)

        cycle()
        before = (fds_at_rest(lab.a), tasks(lab.a))
        looks = [memory_kb(lab.a)]
        for _ in range(10):
            cycle()
            looks.append(memory_kb(lab.a))
        wait_until(lambda: fds(lab.a) <= before[0], "no more files than before")
        wait_until(lambda: tasks(lab.a) <= before[1], "no more threads than before")
        self.assertLess(growth_kb([*looks, memory_kb(lab.a)]), 900)
        wait_until(lambda: lab.a.dump("stat")["held"]["frames"] <= 64,
                   "no frames in use")
        lab.close()


class AtASwitchOfTwoWorkersTest(AtASwitchTest):
    workers = ("--workers", "2")
