# SPDX-License-Identifier: Apache-2.0
"""Registered memory: transfers between every kind of it, with threads that write beside, give the
same results however the daemon reaches the bytes; it says how, and why not better; and it survives
what programs do to their memory meanwhile."""
import os
import sys
import unittest

from labs.lab import BUILD, LONG, UROCE, WireLab
from labs.process import Process, run, run_status, wait_until
from labs.programs import results_of_modes

PROGRAMS = BUILD / "tests" / "memory"
EQUAL_RESULTS = PROGRAMS / "equal_results"
SHM = f"uroce-layouts-e2e-{os.getpid()}"

# How the daemon reaches each kind of memory: "mode" or "mode: reason" of every part.
COPIED_EVERYWHERE = {
    "stack": "copied: stack", "thread stack": "copied: stack", "tls": "copied: stack",
    "data": "copied: file mapping", "rodata": "copied: file mapping",
    "file private": "copied: file mapping", "hugetlb": "copied: file mapping"}
SHARED_EVERYWHERE = ("memfd", "posix shm")
# Without an open file or a path: by the link in /proc, which takes a privilege.
SHARED_BY_LINK = ("shared", "memfd closed", "sysv shm", "hugetlb shared")
MAPPED = ("pages", "huge")
UNPRIVILEGED = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
USER_NAMESPACE = ("unshare", "--user", "--map-root-user")
PID_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ALLOCATORS = {"glibc": "", "jemalloc": f"{LIBRARIES}/libjemalloc.so.2",
              "mimalloc": f"{LIBRARIES}/libmimalloc.so.2.0",
              "tcmalloc": f"{LIBRARIES}/libtcmalloc_minimal.so.4"}
SEED = os.environ.get("UROCE_E2E_SEED", "1")
HUGE_PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
FREE_HUGE_PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"


def free_huge_pages():
    """How many pages of 2 MB are free; 0 where the kernel has none."""
    try:
        with open(FREE_HUGE_PAGES, encoding="ascii") as file:
            return int(file.read())
    except OSError:
        return 0


def reserve_huge_pages(count):
    """Has at least so many pages of 2 MB reserved; returns what to call to give them back."""
    with open(HUGE_PAGES, encoding="ascii") as file:
        before = int(file.read())

    def reserve(pages):
        with open(HUGE_PAGES, "w", encoding="ascii") as file:
            file.write(str(pages))

    reserve(before + count)
    return lambda: reserve(before)


class MemoryCase(unittest.TestCase):
    """Tests with their own lab, made with `daemon_flags`."""

    daemon_flags = ()
    shares = "huge pages"  # Of which MemoryTest reserves as many as one of these programs takes.

    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab(*cls.daemon_flags)
        cls.addClassCleanup(cls.lab.close)
        cls.huge_pages = free_huge_pages()
        # Programs of every user are to find the socket.
        os.chmod(cls.lab.directory, 0o711)
        os.chmod(os.path.dirname(cls.lab.a.daemon.socket), 0o711)

    def _command(self, *settings, program=EQUAL_RESULTS, arguments=(), prefix=()):
        host = self.lab.a
        return host.namespace.command([
            *prefix, "env", f"UROCE_SOCKET={host.daemon.socket}", f"LAYOUTS_SHM={SHM}", *settings,
            UROCE, "run", "--", program, "uroce0", "uroce1", *arguments])

    def _remove_shm(self):
        try:
            os.unlink(f"/dev/shm/{SHM}")
        except FileNotFoundError:
            pass

    def _results(self, *settings, prefix=()):
        """Of a program that finds as many huge pages as each other one: those of programs before it
        are free some time after these have ended."""
        wait_until(lambda: free_huge_pages() >= self.huge_pages, "huge pages of former programs",
                   60)
        self.addCleanup(self._remove_shm)
        return run(self._command(*settings, prefix=prefix), timeout_s=180)

    def _need(self, prefix):
        """Skips where programs cannot run so: the build is root's, or the kernel forbids it."""
        status, output = run_status([*prefix, "test", "-x", EQUAL_RESULTS])
        if status:
            self.skipTest(f"{' '.join(prefix)} cannot run {EQUAL_RESULTS}: {output}")

    def _copiers(self, *settings, prefix=()):
        """Who makes the system calls on copied memory, by the reason why it is copied."""
        copiers = {}
        for parts in self._registered(*settings, prefix=prefix).values():
            for part in parts:
                if part["mode"] == "copied":
                    copiers.setdefault(part["reason"], set()).add(part["copied_by"])
        return copiers

    def _ways(self, *settings, prefix=()):
        """How the daemon reaches each kind of memory."""
        return {kind: self._ways_of(parts)
                for kind, parts in self._registered(*settings, prefix=prefix).items()}

    def _registered(self, *settings, prefix=()):
        """The segments of the region of each kind of memory."""
        self.addCleanup(self._remove_shm)
        holder = Process(self._command(*settings, arguments=["hold"], prefix=prefix))
        self.addCleanup(holder.kill)
        wait_until(lambda: not holder.running() or "held" in holder.output(), "registrations", 60)
        self.assertTrue(holder.running(), holder.describe())
        kinds = dict(line.split(" ", 1) for line in holder.output().splitlines()
                     if line.startswith("0x"))
        found = {kinds[region["address"]]: region["segments"]
                 for region in self.lab.a.dump("mr")["mrs"]
                 if region["program"] == "equal_results" and region["device"] == "uroce0"}
        holder.kill()
        self._remove_shm()
        self.assertEqual(len(found), len(kinds))
        return found

    @staticmethod
    def _ways_of(parts):
        return sorted({part["mode"] + (f": {part['reason']}" if part["reason"] else "")
                       for part in parts})

    def _assert_ways(self, ways, kinds, expected):
        for kind in kinds:
            if kind in ways:  # Huge pages may be absent.
                self.assertEqual(ways[kind], [expected], kind)


class MemoryTest(MemoryCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.addClassCleanup(reserve_huge_pages(4))
        except OSError as error:
            print(f"memory_test: hugetlb memory is not tested: {error}", file=sys.stderr)
        cls.huge_pages = free_huge_pages()

    def test_mapped_and_copied_regions_give_equal_results(self):
        results = results_of_modes(lambda mode: self._results(f"UROCE_MR={mode}"),
                                   ("automatic", "mapped", "copied"))
        self.assertIn("digest", results["automatic"])
        for mode in ("mapped", "copied"):
            with self.subTest(mode):
                self.assertEqual(results[mode], results["automatic"])

    def test_it_says_how_each_kind_of_memory_is_reached(self):
        ways = self._ways()
        for kind, way in COPIED_EVERYWHERE.items():
            self._assert_ways(ways, [kind], way)
        self._assert_ways(ways, SHARED_EVERYWHERE + SHARED_BY_LINK, "shared")
        self._assert_ways(ways, MAPPED, "mapped")
        self.assertEqual(ways["brk"], ["copied: heap page", "mapped"])
        self.assertEqual(ways["arena"], ["copied: heap page", "mapped"])
        self.assertIn("mapped", ways["mixed"])
        self.assertIn("shared", ways["mixed"])

    def test_forced_copies_are_the_policys(self):
        for kind, ways in self._ways("UROCE_MR=copied").items():
            self.assertEqual(ways, ["copied: policy"], kind)

    def test_workers_copy_what_cannot_wait_of_programs_that_could_end_the_daemon(self):
        copiers = self._copiers()
        self.assertEqual(copiers["stack"], {"workers"})
        self.assertEqual(copiers["file mapping"], {"helper"})
        self.assertEqual(self._copiers("UROCE_MR=copied"), {"policy": {"workers", "helper"}})
        for prefix in (UNPRIVILEGED, USER_NAMESPACE, PID_NAMESPACE):
            with self.subTest(" ".join(prefix)):
                self._need(prefix)
                self.assertEqual(self._copiers("UROCE_MR=copied", prefix=prefix),
                                 {"policy": {"helper"}})

    def test_shrinking_a_file_ends_its_program_alone(self):
        for what in ("truncate", "punch"):
            with self.subTest(what):
                run(self._command(program=PROGRAMS / "shrinking_file", arguments=[what]))
        self.assertTrue(self._results().strip())  # The daemon serves others as before.

    def test_programs_change_their_memory_while_it_is_registered(self):
        for mode in ("automatic", "mapped", "copied"):
            with self.subTest(mode):
                run(self._command(f"UROCE_MR={mode}", program=PROGRAMS / "changing_memory"))

    def test_memory_that_is_or_was_registered_is_ordinary_memory(self):
        for mode in ("automatic", "mapped", "copied"):
            with self.subTest(mode):
                run(self._command(f"UROCE_MR={mode}", program=PROGRAMS / "ordinary_memory"))

    def test_allocators_hand_out_what_they_should(self):
        steps = "1000000" if LONG else "3000"
        for name, library in ALLOCATORS.items():
            with self.subTest(name):
                if library and not os.path.exists(library):
                    self.fail(f"{library} is not installed: tools/install-packages test")
                run(self._command(f"LD_PRELOAD={library}", program=PROGRAMS / "allocator_steps",
                                  arguments=["3", steps, SEED]), timeout_s=7200 if LONG else 120)

    def test_a_region_of_thousands_of_mappings_is_shared_as_a_whole(self):
        for mappings in (512, 5000):
            with self.subTest(mappings):
                run(self._command(program=PROGRAMS / "many_mappings",
                                  arguments=[str(mappings), "8192", "20000"]), timeout_s=120)
                ways = self._ways_of_mappings(mappings)
                self.assertEqual(ways, ["shared"])

    def test_beyond_the_most_mappings_the_rest_is_copied_and_says_so(self):
        ways = self._ways_of_mappings(8300)
        self.assertEqual(ways, ["copied: too many parts", "shared"])

    def _ways_of_mappings(self, mappings):
        holder = Process(self._command(program=PROGRAMS / "many_mappings",
                                       arguments=[str(mappings), "4096", "9000", "hold"]))
        self.addCleanup(holder.kill)
        wait_until(lambda: not holder.running() or "a second" in holder.output(), "WRITEs", 120)
        self.assertTrue(holder.running(), holder.describe())
        regions = [region for region in self.lab.a.dump("mr")["mrs"]
                   if region["program"] == "many_mappings" and region["device"] == "uroce0"]
        holder.kill()
        self.assertEqual(len(regions), 1)
        return self._ways_of(regions[0]["segments"])

    def test_forks_among_transfers(self):
        for mode in ("automatic", "copied"):
            with self.subTest(mode):
                run(self._command(f"UROCE_MR={mode}", program=PROGRAMS / "forking",
                                  arguments=["100" if LONG else "3"]), timeout_s=120)

    def test_pages_that_io_uring_has_pinned_stay_where_they_are(self):
        output = run(self._command(program=PROGRAMS / "pinned_program"))
        if "no io_uring" in output:
            self.skipTest("no io_uring here")

    def test_a_program_that_locks_all_its_memory_gets_no_more_of_it(self):
        for when in ("before", "behind"):
            with self.subTest(when):
                run(self._command(program=PROGRAMS / "locked_program", arguments=[when]),
                    timeout_s=120)

    def test_without_privilege_all_is_reached_as_well_as_the_daemon_lends(self):
        for prefix, shared in ((UNPRIVILEGED, "copied: not sealed"), (USER_NAMESPACE, "shared")):
            with self.subTest(prefix[0]):
                self._need(prefix)
                ways = self._ways(prefix=prefix)
                self._assert_ways(ways, SHARED_EVERYWHERE + SHARED_BY_LINK, shared)
                for kind in (*MAPPED, "odd pages", "bss", "large heap"):
                    self.assertIn("mapped", ways[kind], kind)

    def test_pages_that_others_write_to_are_copied_without_a_kernel_mode_userfaultfd(self):
        self._need(UNPRIVILEGED)
        ways = self._ways(prefix=UNPRIVILEGED)
        for kind in ("pages", "odd pages"):  # Both end inside a page.
            self.assertEqual(ways[kind], ["copied: partial page", "mapped"], kind)

    def test_results_are_equal_without_privilege(self):
        self._need(UNPRIVILEGED)
        self.assertEqual(self._results(prefix=UNPRIVILEGED), self._results())
        self.assertEqual(self._results("UROCE_MR=copied", prefix=UNPRIVILEGED), self._results())


class WithoutUserfaultfdTest(MemoryCase):
    """As in a container, where the kernel gives no userfaultfd."""

    SETTING = "UROCE_USERFAULTFD=0"

    def test_it_says_how_each_kind_of_memory_is_reached(self):
        ways = self._ways(self.SETTING)
        for kind, way in COPIED_EVERYWHERE.items():
            self._assert_ways(ways, [kind], way)
        self._assert_ways(ways, SHARED_EVERYWHERE + SHARED_BY_LINK, "shared")
        for kind in (*MAPPED, "odd pages", "bss", "large heap", "mixed"):
            self.assertIn("mapped: no userfaultfd", ways[kind], kind)

    def test_results_are_equal(self):
        self.assertEqual(self._results(self.SETTING), self._results())

    def test_programs_change_their_memory_while_it_is_registered(self):
        run(self._command(self.SETTING, program=PROGRAMS / "changing_memory"))

    def test_memory_that_is_or_was_registered_is_ordinary_memory(self):
        run(self._command(self.SETTING, program=PROGRAMS / "ordinary_memory"))

    def test_programs_that_use_the_signal_themselves(self):
        for setting in (self.SETTING, "UROCE_USERFAULTFD=1"):
            with self.subTest(setting):
                run(self._command(setting, program=PROGRAMS / "fault_handlers"))

    def test_forks_among_transfers(self):
        run(self._command(self.SETTING, program=PROGRAMS / "forking",
                          arguments=["100" if LONG else "3"]), timeout_s=120)


class SharedUserfaultfdTest(MemoryCase):
    daemon_flags = ("--share-userfaultfd",)

    def test_a_userfaultfd_of_the_daemons_maps_what_others_write_to(self):
        self._need(UNPRIVILEGED)
        if not os.path.exists("/dev/userfaultfd"):
            self.skipTest("no /dev/userfaultfd here")
        self.assertEqual(self._ways(prefix=UNPRIVILEGED)["odd pages"], ["mapped"])


class MapOtherUsersFilesTest(MemoryCase):
    daemon_flags = ("--map-other-users-files",)

    def test_workers_reach_files_in_memory_of_other_users(self):
        self._need(UNPRIVILEGED)
        ways = self._ways(prefix=UNPRIVILEGED)
        self._assert_ways(ways, SHARED_EVERYWHERE + SHARED_BY_LINK, "shared")
        self.assertEqual(self._results(prefix=UNPRIVILEGED), self._results())


class CopyOtherUsersTest(MemoryCase):
    """Workers wait for no memory of other users' programs, since they touch none."""

    daemon_flags = ("--copy-other-users",)

    def test_helpers_reach_all_memory_of_other_users_with_the_same_results(self):
        self._need(UNPRIVILEGED)
        registered = self._registered(prefix=UNPRIVILEGED)
        for kind, parts in registered.items():
            for part in parts:
                self.assertEqual(part["copied_by"], "helper", (kind, part))
        for kind in SHARED_EVERYWHERE:
            self.assertEqual(self._ways_of(registered[kind]), ["copied: left to a helper"], kind)
        self.assertEqual(self._results(prefix=UNPRIVILEGED), self._results())

    def test_workers_reach_the_memory_of_root_themselves(self):
        ways = self._ways()
        self._assert_ways(ways, SHARED_EVERYWHERE, "shared")
        self._assert_ways(ways, MAPPED, "mapped")
