# SPDX-License-Identifier: Apache-2.0
"""Bad flags and values: one line that names what is wrong, exit status 2, nothing started."""
import os
import re
import tempfile
import unittest

from labs.lab import UROCE, UROCED, WireLab
from labs.process import run, run_status

UROCED_FLAGS = [
    (["--bogus"], "--bogus"),
    (["stray"], "stray"),
    (["--workers", "many"], "many"),
    (["--workers", "0"], "workers"),
    (["--workers", "automatic"], "neither auto nor a number from 1 to 64"),
    (["--wire", "uroce0=10.0.0.1/24"], "wire"),
    (["--wire", "uroce0=10.0.0.300/24,uroce1=10.0.0.2/24"], "10.0.0.300"),
    (["--wire", "uroce0=10.0.0.1/99,uroce1=10.0.0.2/24"], "99"),
    (["--wire", "uroce0=10.0.0.1/24,uroce0=10.0.0.2/24"], "uroce0"),
    (["--wire-interfaces", "--port", "name=uroce0,dev=net_null0"], "there is no NIC inside"),
    (["--port", "name=uroce0"], "dev"),
    (["--port", "name=uroce0,dev=net_af_packet0;iface=nonesuch0"], "nonesuch0"),
    (["--port", "name=uroce0,dev=net_af_packet0;iface=lo,colour=red"], "colour"),
    (["--port", "name=uroce0,dev=net_af_packet0;iface=lo,gateway=192.0.2.1"], "kernel's routes"),
    (["--port", "name=uroce0,dev=net_af_packet0;iface=lo,ip=10.0.0.1/24 vlan 5"],
     "ip link add link lo name lo.5 type vlan id 5"),
    (["--port", "name=uroce0,dev=net_memif0;role=boss;socket=/run/x"], "role=boss"),
    (["--port", "name=uroce0,dev=net_memif0;role=client"], "socket="),
    (["--port", f"name=uroce0,dev=net_memif0;role=client;socket=/{'x' * 110}"], "at most 107"),
    (["--port", "name=uroce0,dev=net_memif0;role=client;socket=/run/x;bsize=2048"], "bsize=2048"),
    (["--port", "name=uroce0,dev=net_memif0;role=server;socket=/nonexistent/x"], "/nonexistent/x"),
    (["--port", "name=uroce0,dev=net_memif0;role=client;socket=/nonexistent/x"], "/nonexistent/x"),
    (["--port", "name=uroce0,dev=net_memif0;role=server;socket=/run/x;frames=7"], "frames"),
    (["--port", "name=uroce0,dev=net_vhost0;iface=/nonexistent/x"], "directory /nonexistent"),
    (["--port", "name=uroce0,dev=net_vhost0;iface=/tmp/x;colour=red"], "colour"),
    (["--port", "name=uroce0,dev=net_virtio_user0;path=/nonexistent/x"],
     "no process listens there"),
    (["--port", "name=uroce0,dev=net_tap0;iface=lo"], "iface=lo: there is such an interface"),
    (["--port", "name=uroce0,dev=net_tap0,mtu=4200"], "mtu=4200 is more than the 1500"),
    (["--port", "name=uroce0,dev=net_tap0,queues=99"], "queues \"99\""),
    (["--port", "name=uroce0,dev=net_af_xdp0;iface=lo"], "iface=lo has the MTU 65536"),
    (["--port", "name=uroce0,dev=net_pcap0;rx_pcap=/nonexistent.pcap"], "/nonexistent.pcap"),
    (["--port", "name=uroce0,dev=net_pcap0;rx_pcap=/dev/zero"], "is no file"),
    (["--port", "name=uroce0,iface=nonesuch0"], '": there is no interface "nonesuch0"'),
    (["--port", "name=uroce0,udp=127.0.0.1"], '"127.0.0.1" is not a unicast address'),
    (["--port", "name=uroce0,dev=net_bogus0"], "no driver here is called net_bogus"),
    (["--port", "name=uroce0,dev=ffff:ff:1f.7"], "no such PCI device"),
    (["--fault", "uroce0:drop=2"], "drop"),
    (["--fault", "uroce0:explode=0.1"], "explode"),
    (["--fault", "uroce0:rule=delay:2s"], "rule=delay:2s: the time"),
    (["--fault", "uroce9:drop=0.1"], "uroce9"),
    (["--config", "/nonexistent/uroced.toml"], "/nonexistent/uroced.toml"),
    (["--socket", "/nonexistent/directory/uroced.sock"], "/nonexistent/directory"),
    (["--socket", "/nonexistent/directory/uroced.sock"], "XDG_RUNTIME_DIR"),
    (["--socket", "/tmp"], "/tmp is a directory"),
]

UROCE_FLAGS = [
    ([], "subcommand"),
    (["bogus"], "bogus"),
    (["stat", "--bogus"], "--bogus"),
    (["stat", "--watch", "soon"], "soon"),
    (["stat", "--watch", "abc"], "abc is no number of seconds from 0.1 to 3600"),
    (["stats"], "did you mean stat"),
    (["config"], "is required: show, reload, set (see uroce config --help)"),
    (["fault", "set", "uroce0"], "SETTING is required (see uroce fault set --help)"),
    (["monitor", "--count", "0"], "--count: 0 is no number from 1 up"),
    (["history", "abc", "-w", "-"], "abc is no number from 1 to 16777215"),
    (["qp", "colour=1"], "device=NAME, pid=NUMBER or qpn=NUMBER"),
    (["run"], "program"),
    (["capture"], "--write"),
    (["capture", "-w", "/dev/null", "-c", "-5"], "-5"),
    (["capture", "-w", "/dev/null", "-s", "lots"], "lots"),
    (["capture", "-w", "/dev/null", "udp", "and"], "udp and"),
    (["capture", "-w", "/dev/null", "-b", "filesize:none"], "-b filesize:none"),
    (["capture", "-w", "/dev/null", "-b", "files:3"], "-b files"),
    (["capture", "-w", "-", "-b", "packets:3"], "-w -"),
    (["capture", "-w", "/dev/null", "-a", "sheep:3"], "-a sheep:3"),
    (["capture", "-w", "/dev/null", "-Q", "up"], "up is none of in, out, inout"),
    (["capture", "-w", "/dev/null", "--only", "lost"], "none of dropped, retransmitted, marked"),
    (["extcap", "--install", "--remove"], "--install"),
    (["--socket", "/nonexistent/uroced.sock", "stat"], "/nonexistent/uroced.sock"),
    (["--socket", "/nonexistent/uroced.sock", "run", "--", "true"], "/nonexistent/uroced.sock"),
    (["--socket", "/" + "x" * 200, "stat"], "longer"),
]


class FlagsTest(unittest.TestCase):
    def check(self, command, hint):
        with self.subTest(" ".join(map(str, command[1:]))):
            status, output = run_status(command)
            self.assertEqual(status, 2, output)
            self.assertEqual(len(output.strip().splitlines()), 1, output)
            self.assertIn(hint, output)

    def test_uroced_names_the_flag_and_the_value(self):
        with tempfile.TemporaryDirectory() as directory:
            for flags, hint in UROCED_FLAGS:
                place = [] if "--socket" in flags else ["--socket", f"{directory}/socket"]
                self.check([UROCED, "--no-huge", *place, *flags], hint)
                self.assertEqual(os.listdir(directory), [])

    def test_uroced_names_the_key_in_its_file(self):
        with tempfile.TemporaryDirectory() as directory:
            for text, hint in (("workers = \"many\"\n", "workers"), ("colour = 1\n", "colour"),
                               ("workers = [\n", "uroced.toml"),
                               ("[[port]]\nname = \"x\"\n", "dev")):
                path = f"{directory}/uroced.toml"
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                self.check([UROCED, "--socket", f"{directory}/socket", "--config", path], hint)

    def test_uroce_names_the_flag_and_the_value(self):
        for flags, hint in UROCE_FLAGS:
            self.check([UROCE, *flags], hint)

    def test_output_to_a_full_disk_is_an_error(self):
        for program in (UROCE, UROCED):
            for flag in ("--help", "--version"):
                status, output = run_status(["sh", "-c", f"{program} {flag} > /dev/full"])
                self.assertEqual(
                    (status, output.strip()),
                    (1, f"{program.name}: standard output: No space left on device"))

    def test_help_and_version_end_well(self):
        for program in (UROCE, UROCED):
            for flag in ("-h", "--help", "--version"):
                self.assertTrue(run([program, flag]))
        for command in ("run", "env", "devices", "stat", "qp", "mr", "capture", "extcap",
                        "doctor"):
            self.assertIn(command, run([UROCE, command, "--help"]))


class FlagsWithADaemonTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def test_a_closed_output_is_an_error_and_no_message_for_the_daemon(self):
        command = " ".join(map(str, self.lab.a.uroce("capture", "-w", "-", "-c", 1)))
        status, output = run_status(["sh", "-c", f"{command} >&-"])
        self.assertEqual(status, 1, output)
        self.assertIn("write -: Bad file descriptor", output)
        self.assertTrue(self.lab.a.dump("devices"))

    def test_a_listing_to_a_full_disk_is_an_error(self):
        for words in ("stat", "stat --json", "qp", "devices --json", "fault show", "config show",
                      "top --batch --count 1 --watch 0.1", "doctor", "env"):
            command = " ".join(map(str, self.lab.a.uroce(*words.split())))
            status, output = run_status(["sh", "-c", f"{command} >/dev/full"])
            self.assertEqual((status, output),
                             (1, "uroce: standard output: No space left on device\n"), words)

    def test_a_program_that_cannot_run_has_the_status_that_shells_give_it(self):
        for program, expected in (("/nonexistent/program", 127), ("/etc/passwd", 126)):
            status, output = run_status(self.lab.a.verbs(program))
            self.assertEqual(status, expected, output)
            self.assertIn(f"uroce: cannot run {program}: ", output)

    def test_a_relative_socket_is_found_from_other_folders(self):
        folder, socket = os.path.split(self.lab.a.daemon.socket)
        output = run(["sh", "-c", f"cd {folder} && exec {UROCE} --socket {socket} run -- "
                      "sh -c 'cd / && ibv_devices'"])
        self.assertIn("uroce0", output)

    def test_a_wrong_text_gets_the_same_words_at_the_start_and_while_it_runs(self):
        """The three ways of faults, and of congestion control."""
        for fault in ("drop=2", "explode=0.1", "rule=delay:2s"):
            self.check_words(fault, [["--fault", f"uroce0:{fault}"],
                                     ["--port", f"name=p,dev=net_null0,fault={fault}"]],
                             [["fault", "set", "uroce0", fault],
                              ["port", "set", "uroce0", f"fault={fault}"]])
        for key, value in (("cc", "swift"), ("cc.3", "on"), ("cc.rpg_gd", "16"), ("cc.hai", "1")):
            text = f"{key}={value}"
            self.check_words(text, [["--port", f"name=p,dev=net_null0,{text}"],
                                    ["--wire", f"a=10.1.0.1,b=10.1.0.2,{text}"]],
                             [["cc", "set", "uroce0", text], ["port", "set", "uroce0", text],
                              ["cc", "set", "uroce0",
                               text.replace("cc.", "").replace("cc=", "profile=")]])

    def check_words(self, text, at_start, while_it_runs):
        commands = [[UROCED, "--socket", f"{self.lab.directory}/other", *flags]
                    for flags in at_start] + [self.lab.a.uroce(*words) for words in while_it_runs]
        said = set()
        for command in commands:
            status, output = run_status(command)
            self.assertEqual((status, output.count("\n")), (2, 1), output)
            said.add(re.sub(r"^(uroced?: )((--\w+|uroce0): )?", "", output))
        self.assertEqual(len(said), 1, f"{text}: {said}")

    def test_what_there_is_stands_beside_what_there_is_not(self):
        for words, hint in ((("switch", "-d", "nope"), "there are none"),
                            (("top", "--batch", "-d", "nope"), "there are: uroce0, uroce1"),
                            (("monitor", "-d", "nope"), "there are: uroce0, uroce1"),
                            (("capture", "-w", "-", "-d", "nope"), "there are: uroce0, uroce1"),
                            (("fault", "set", "nope", "drop=0"), "there are: uroce0, uroce1")):
            status, output = run_status(self.lab.a.uroce(*words))
            self.assertEqual((status, output.count("\n")), (2, 1), output)
            self.assertIn(hint, output)
