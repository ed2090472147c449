/* SPDX-License-Identifier: Apache-2.0
 * Runs a command as a container with the default profile of Docker or Podman does: new namespaces,
 * a read-only root, user 12345 without capabilities, and a filter that refuses what these profiles
 * refuse to processes without capabilities. Writable are /tmp, /var/tmp and /dev/shm. Usage:
 * sandbox COMMAND [ARGUMENT...], as root. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define USER 12345
#define NAMESPACES \
  (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP)

static void check(int ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "sandbox: %s: %s\n", what, strerror(errno));
  exit(125);
}

/* What takes a capability that containers lack, or is refused to all. */
static const char* const refused[] = {"acct",
                                      "add_key",
                                      "bpf",
                                      "chroot",
                                      "clock_adjtime",
                                      "clock_settime",
                                      "create_module",
                                      "delete_module",
                                      "fanotify_init",
                                      "finit_module",
                                      "fsconfig",
                                      "fsmount",
                                      "fsopen",
                                      "fspick",
                                      "get_mempolicy",
                                      "init_module",
                                      "io_uring_enter",
                                      "io_uring_register",
                                      "io_uring_setup",
                                      "ioperm",
                                      "iopl",
                                      "kcmp",
                                      "kexec_file_load",
                                      "kexec_load",
                                      "keyctl",
                                      "lookup_dcookie",
                                      "mbind",
                                      "mount",
                                      "mount_setattr",
                                      "move_mount",
                                      "move_pages",
                                      "name_to_handle_at",
                                      "nfsservctl",
                                      "open_by_handle_at",
                                      "open_tree",
                                      "perf_event_open",
                                      "pidfd_getfd",
                                      "pivot_root",
                                      "process_madvise",
                                      "process_vm_readv",
                                      "process_vm_writev",
                                      "ptrace",
                                      "quotactl",
                                      "quotactl_fd",
                                      "reboot",
                                      "request_key",
                                      "set_mempolicy",
                                      "setdomainname",
                                      "sethostname",
                                      "setns",
                                      "settimeofday",
                                      "swapoff",
                                      "swapon",
                                      "syslog",
                                      "umount2",
                                      "unshare",
                                      "uselib",
                                      "userfaultfd",
                                      "ustat",
                                      "vhangup"};

static void filter_system_calls(void) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  check(filter != NULL, "seccomp_init");
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); ++i) {
    const int number = seccomp_syscall_resolve_name(refused[i]);
    if (number == __NR_SCMP_ERROR) continue; /* libseccomp is older than the call. */
    check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0) == 0, refused[i]);
  }
  const int flags[] = {CLONE_NEWNS,  CLONE_NEWPID,  CLONE_NEWIPC,   CLONE_NEWUTS,
                       CLONE_NEWNET, CLONE_NEWUSER, CLONE_NEWCGROUP};
  for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); ++i) {
    const scmp_datum_t flag = (scmp_datum_t)(unsigned)flags[i];
    check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)) == 0,
          "clone");
  }
  /* Its flags lie in memory, which a filter cannot read. */
  check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0, "clone3");
  check(seccomp_load(filter) == 0, "seccomp_load");
  seccomp_release(filter);
}

static void keep_device(const char* name) {
  char from[64], to[64];
  snprintf(from, sizeof(from), "/dev/%s", name);
  snprintf(to, sizeof(to), "/tmp/dev/%s", name);
  close(open(to, O_CREAT | O_CLOEXEC, 0666));
  check(mount(from, to, NULL, MS_BIND, NULL) == 0, from);
}

/* A /dev with what every container has, which is made elsewhere and then moved. */
static void make_devices(void) {
  static const char* const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
  check(mkdir("/tmp/dev", 0755) == 0, "/tmp/dev");
  check(mount("tmpfs", "/tmp/dev", "tmpfs", MS_NOSUID, "mode=755") == 0, "/dev");
  for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); ++i) keep_device(devices[i]);
  check(mkdir("/tmp/dev/shm", 01777) == 0, "/dev/shm");
  check(symlink("/proc/self/fd", "/tmp/dev/fd") == 0, "/dev/fd");
  check(mount("shm", "/tmp/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0, "shm");
  check(mount("/tmp/dev", "/dev", NULL, MS_MOVE, NULL) == 0, "move to /dev");
}

static void mount_all(void) {
  check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
  struct {
    uint64_t set, clear, propagation, namespace;
  } read_only = {.set = MS_RDONLY};
  check(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0, "/tmp");
  check(mount("tmpfs", "/var/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0, "/var/tmp");
  make_devices();
  check(syscall(SYS_mount_setattr, AT_FDCWD, "/", 0x8000 /* AT_RECURSIVE */, &read_only,
                sizeof(read_only)) == 0,
        "read-only root");
  /* What is new stays writable. */
  check(mount(NULL, "/tmp", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV, NULL) == 0, "/tmp");
  check(mount(NULL, "/var/tmp", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV, NULL) == 0,
        "/var/tmp");
  check(mount(NULL, "/dev/shm", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID, NULL) == 0, "/dev/shm");
  check(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0, "/proc");
  check(mount("/proc/sys", "/proc/sys", NULL, MS_BIND, NULL) == 0, "/proc/sys");
  check(mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0, "/proc/sys");
}

static void bring_up_loopback(void) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  check(ioctl(fd, SIOCSIFFLAGS, &request) == 0, "lo");
  close(fd);
}

static void drop_privileges(void) {
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  const struct rlimit locked = {.rlim_cur = 64 << 10, .rlim_max = 64 << 10};
  check(setrlimit(RLIMIT_MEMLOCK, &locked) == 0, "RLIMIT_MEMLOCK");
  check(setgroups(0, NULL) == 0, "setgroups");
  check(setresgid(USER, USER, USER) == 0, "setresgid");
  check(setresuid(USER, USER, USER) == 0, "setresuid");
  check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
}

static void run(char** command) {
  mount_all();
  bring_up_loopback();
  drop_privileges();
  filter_system_calls();
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  setenv("HOME", "/tmp", 1);
  setenv("XDG_RUNTIME_DIR", "/tmp", 1);
  execvp(command[0], command);
  check(0, command[0]);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: sandbox COMMAND [ARGUMENT...]\n");
    return 125;
  }
  check(unshare(NAMESPACES) == 0, "unshare");
  const pid_t child = fork(); /* The first process of the new PID namespace. */
  check(child >= 0, "fork");
  if (child == 0) run(argv + 1);
  int status;
  check(waitpid(child, &status, 0) == child, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
