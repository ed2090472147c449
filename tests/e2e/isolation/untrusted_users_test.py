# SPDX-License-Identifier: Apache-2.0
"""What a user may cause beside commands: lines of the log, bytes on terminals, long dumps; and what
he may have prepared where the daemon makes its socket."""
import os
import stat
import sys
import tempfile
import unittest
from pathlib import Path

from labs.blocking_fds import Program
from labs.lab import BUILD, E2E, UROCED, WireLab
from labs.process import Process, resident_kilobytes, run, run_status, wait_until

UID = 61000
DUMP_MR = 4
AS_USER = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
ESCAPES = "\x1b[31mred\x07"


class UntrustedUsersTest(unittest.TestCase):
    shares = "files under way of a user"  # The kernel counts them for all programs of a user.

    def setUp(self):
        self.lab = WireLab()
        self.addCleanup(self.lab.tear_down)
        for directory in (self.lab.directory, os.path.dirname(self.lab.a.daemon.socket)):
            os.chmod(directory, 0o711)
        self.daemon = self.lab.daemons[0]

    def start(self, script, *arguments):
        """A Python script of the user's, which says something when it is done, and lives on."""
        program = Process([*AS_USER, sys.executable, "-c",
                           f"import sys; sys.path.insert(0, '{E2E}')\n"
                           f"from labs.control import *\n{script}\n"
                           "print('done', flush=True)\ntime.sleep(1000)",
                           self.daemon.socket, *arguments])
        self.addCleanup(program.kill)
        wait_until(lambda: "done" in program.output() or not program.running(), "its work", 60)
        self.assertTrue(program.running(), program.output())
        return program

    def test_a_user_causes_so_many_lines_of_the_log_and_the_others_are_counted(self):
        count = 500
        self.start(f"for _ in range({count}):\n"
                   "    client = Client(sys.argv[1])\n"
                   "    client.call('HELLO', 'II', ABI_VERSION, 0)\n"
                   "    client.socket.close()")
        wait_until(lambda: "lines left out" in self.daemon.process.output(), "a count")
        lines = self.daemon.process.output().splitlines()
        caused = [line for line in lines if " left" in line]
        self.assertLess(len(caused), count / 2, caused[-1])
        self.assertIn(f"user {UID}: ", self.daemon.process.output())

    def test_the_name_of_a_program_brings_no_terminal_under_its_will(self):
        name = repr(ESCAPES)
        program = self.start(f"open('/proc/self/comm', 'w').write({name})\n"
                             "maker = Maker(sys.argv[1])\nmaker.prepare()\nmaker.qp()\nmaker.srq()")
        for what in ("qp", "srq"):
            shown = run(self.lab.a.uroce(what))
            self.assertIn(str(program.pid), shown)
            self.assertNotIn("\x1b", shown)
        self.assertIn("?[31mred?", str(self.lab.a.dump("qp")))
        program.kill()
        wait_until(lambda: f"(pid {program.pid}) left" in self.daemon.process.output(), "a line")
        self.assertNotIn("\x1b", self.daemon.process.output())

    def test_an_unread_dump_costs_the_daemon_little(self):
        regions, parts = 2000, 64
        self.start("maker = Maker(sys.argv[1])\nmaker.prepare()\n"
                   f"parts = b''.join(struct.pack('<QQIIQII', 0x10000 + i * 4096, 4096, 4, NONE, 0,"
                   f" 0, 0) for i in range({parts}))\n"
                   f"for _ in range({regions}):\n"
                   f"    maker.client.call('REG_MR', f'IIQQQII{{len(parts)}}s', maker.in_pd, 1,"
                   f" 0x10000, 4096 * {parts}, 0x10000, {parts}, NONE, parts)")
        before = resident_kilobytes(self.daemon.process.pid)
        for _ in range(8):
            tool = Program(self.daemon.socket)
            for fd in tool.call_with_fds("DUMP", "II", DUMP_MR, 0):
                self.addCleanup(os.close, fd)
            self.addCleanup(tool.socket.close)
        shown = self.lab.a.dump("mr")["mrs"]
        self.assertEqual(len(shown), regions)
        self.assertEqual(len(shown[0]["segments"]), parts)
        self.assertLess(resident_kilobytes(self.daemon.process.pid) - before, 30_000)


class PreparedPlaceTest(unittest.TestCase):
    """A socket in a directory like /tmp."""

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="uroce-e2e-")
        self.addCleanup(place.cleanup)
        os.chmod(place.name, 0o1777)
        self.socket = f"{place.name}/uroced.sock"
        self.victim = tempfile.mkdtemp(prefix="uroce-e2e-", dir=place.name)
        self.precious = Path(self.victim, "infiniband", "precious")
        self.precious.parent.mkdir()
        self.precious.touch()

    def check_refused(self, text):
        status, output = run_status([UROCED, "--socket", self.socket, "--no-huge"])
        self.assertNotEqual(status, 0)
        self.assertIn(text, output)
        self.assertTrue(self.precious.exists())
        self.assertEqual(os.listdir(self.precious.parent), ["precious"])

    def test_a_directory_of_another_user_is_not_taken_for_the_daemons(self):
        run([*AS_USER, "mkdir", "-p", f"{self.socket}.d/sys"])
        run([*AS_USER, "ln", "-s", self.victim, f"{self.socket}.d/sys/class"])
        self.check_refused(f"belongs to user {UID}")

    def test_a_link_is_not_followed(self):
        Path(self.victim, "sys").mkdir()
        os.symlink(self.victim, f"{self.victim}/sys/class")
        run([*AS_USER, "ln", "-s", self.victim, f"{self.socket}.d"])
        self.check_refused("is no directory")

    def test_a_lock_of_another_user_is_refused(self):
        run([*AS_USER, "touch", f"{self.socket}.lock"])
        status, output = run_status([UROCED, "--socket", self.socket, "--no-huge"])
        self.assertNotEqual(status, 0)
        self.assertIn(f"{self.socket}.lock", output)


class SecureExecutionTest(unittest.TestCase):
    """A program that has more rights than who started it takes no word from his environment."""

    def test_the_socket_of_the_environment_is_not_used(self):
        with tempfile.TemporaryDirectory(prefix="uroce-e2e-", dir=BUILD) as place:
            os.chmod(place, 0o755)
            program = f"{place}/secure"
            run(["cp", BUILD / "tests" / "e2e" / "secure_program", program])
            environment = dict(os.environ, UROCE_SOCKET=f"{place}/nowhere.sock", UROCE_LOG="1")
            status, output = run_status([program], env=environment)
            self.assertIn("nowhere.sock", output, "it is used without more rights")
            os.chown(program, 0, UID)
            os.chmod(program, 0o755 | stat.S_ISGID)
            status, output = run_status([program], env=environment)
            if status != 77:
                self.skipTest(f"{place} does not give rights: {output}")
            self.assertNotIn("nowhere.sock", output)
