// SPDX-License-Identifier: Apache-2.0
// device_paths DEVICE: finds the files of a device by all functions of libc that programs use for
// it, and prints a line for each.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static char device_directory[128];
static int entries, below, right_bases;

static void say(const char* what, int is_right) {
  printf("%s: %s\n", what, is_right ? "found" : "missing");
}

static int on_entry(const char* path, const struct stat* status, int type, struct FTW* place) {
  (void)status, (void)type;
  ++entries;
  below += strncmp(path, device_directory, strlen(device_directory)) == 0;
  right_bases +=
      place->base > 0 && path[place->base - 1] == '/' && strchr(path + place->base, '/') == NULL;
  return 0;
}

static int on_simple_entry(const char* path, const struct stat* status, int type) {
  (void)type;
  ++entries;
  below += strncmp(path, device_directory, strlen(device_directory)) == 0 && status->st_ino != 0;
  return 0;
}

static void find_by_walks(void) {
  entries = below = right_bases = 0;
  nftw(device_directory, on_entry, 8, 0);
  say("nftw", entries > 20 && below == entries && right_bases == entries);
  entries = below = 0;
  ftw(device_directory, on_simple_entry, 8);
  say("ftw", entries > 20 && below == entries);
  char* paths[] = {device_directory, NULL};
  FTS* walk = fts_open(paths, FTS_LOGICAL | FTS_NOCHDIR, NULL);
  int guids = 0;
  for (FTSENT* entry; walk != NULL && (entry = fts_read(walk)) != NULL;) {
    guids += strcmp(entry->fts_name, "node_guid") == 0 && access(entry->fts_accpath, R_OK) == 0;
  }
  say("fts", guids == 1);
  if (walk != NULL) fts_close(walk);
}

static void find_by_patterns(const char* device) {
  char pattern[PATH_MAX], wanted[PATH_MAX];
  glob_t found;
  snprintf(pattern, sizeof(pattern), "/sys/class/infiniband/%.*s*/ports/*/state",
           (int)strlen(device) - 1, device);
  snprintf(wanted, sizeof(wanted), "%s/ports/1/state", device_directory);
  int count = 0;
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) count += strcmp(found.gl_pathv[i], wanted) == 0;
    say("glob names each once", count == 1 && found.gl_pathc == 2);
    globfree(&found);
  }
  say("glob", count == 1);
  say("glob of another folder", glob("/sys/class/net/l*", 0, NULL, &found) == 0);
  globfree(&found);
}

static void find_relatively(const char* device) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "infiniband/%s/node_guid", device);
  say("relative", chdir("/sys/class") == 0 && access(path, R_OK) == 0);
  snprintf(path, sizeof(path), "sys/class/infiniband/%s/node_guid", device);
  say("relative to /", chdir("/") == 0 && access(path, R_OK) == 0);
  const int root = open("/", O_RDONLY | O_DIRECTORY);
  const int file = openat(root, path, O_RDONLY);
  struct stat status;
  say("openat", file >= 0 && fstatat(root, path, &status, 0) == 0);
  snprintf(path, sizeof(path), "../..//sys/./class/infiniband/../infiniband/%s/node_guid", device);
  say("slashes and dots", chdir("/sys/class") == 0 && access(path, R_OK) == 0);
  snprintf(path, sizeof(path), "//sys//class/net/../infiniband//%s", device);
  say("slashes", stat(path, &status) == 0 && S_ISDIR(status.st_mode));
}

// As ls -l, test -r and stat -f do.
static void ask_about(void) {
  char path[256];
  struct statfs file_system;
  struct statvfs same;
  snprintf(path, sizeof(path), "%s/node_guid", device_directory);
  say("euidaccess", euidaccess(path, R_OK) == 0);
  say("statfs", statfs(path, &file_system) == 0 && statvfs(path, &same) == 0);
  char names[256];
  say("listxattr", listxattr(path, names, sizeof(names)) >= 0);
  say("getxattr", lgetxattr(path, "user.none", names, sizeof(names)) < 0 && errno != ENOENT);
  FILE* stream = fopen("/dev/null", "r");
  say("freopen", stream != NULL && (stream = freopen(path, "r", stream)) != NULL);
  if (stream != NULL) fclose(stream);
  const int watch = inotify_init();
  say("inotify", inotify_add_watch(watch, path, IN_ACCESS) >= 0);
  close(watch);
}

static void find_nodes(void) {
  DIR* directory = opendir("/dev/infiniband");
  int verbs = 0, manager = 0;
  for (struct dirent* entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
    char path[PATH_MAX];
    struct stat status;
    snprintf(path, sizeof(path), "/dev/infiniband/%s", entry->d_name);
    if (lstat(path, &status) != 0 || !S_ISCHR(status.st_mode)) continue;
    verbs += strncmp(entry->d_name, "uverbs", 6) == 0;
    manager += strcmp(entry->d_name, "rdma_cm") == 0;
  }
  if (directory != NULL) closedir(directory);
  say("uverbs nodes", verbs == 2);
  say("rdma_cm", manager == 1);
}

// Programs of topology read the address of the parent, and where it is.
static void find_parent(void) {
  char path[256], real[PATH_MAX] = "";
  snprintf(path, sizeof(path), "%s/device", device_directory);
  const char* name = realpath(path, real) == NULL ? "" : strrchr(real, '/') + 1;
  unsigned domain, bus, slot, function;
  say("address of the parent",
      sscanf(name, "%4x:%2x:%2x.%1u", &domain, &bus, &slot, &function) == 4);
  say("real path", strncmp(real, "/sys/devices/pci", 16) == 0 && access(real, F_OK) == 0);
  struct stat status;
  say("link", lstat(device_directory, &status) == 0 && S_ISLNK(status.st_mode));
  snprintf(path, sizeof(path), "%s/device/local_cpus", device_directory);
  say("CPUs of the parent", access(path, R_OK) == 0);
  // As hwloc does: from a directory, by the link.
  const int root = open("/", O_RDONLY | O_DIRECTORY);
  const ssize_t length = readlinkat(root, device_directory + 1, real, sizeof(real) - 1);
  real[length > 0 ? length : 0] = '\0';
  say("link of the class", strncmp(real, "../../devices/pci", 17) == 0);
  close(root);
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  snprintf(device_directory, sizeof(device_directory), "/sys/class/infiniband/%s", arguments[1]);
  find_by_patterns(arguments[1]);
  find_by_walks();
  find_relatively(arguments[1]);
  ask_about();
  find_nodes();
  find_parent();
  return 0;
}
