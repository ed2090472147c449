// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/hooks/redirected_path.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_stage.h"
#include "verbs-shim/gpu_driver.h"
#include "verbs-shim/support.h"

namespace uroce::shim {

// ---- Which paths are ours ----

namespace {

constexpr size_t kMostParts = 4;

/// A directory of ours, and how far a path that is read part by part has come into it.
struct Place {
  const char* path;
  const char* parts[kMostParts];
  size_t count;
  size_t inside = 0;   ///< Parts of the directory in which the path is.
  size_t outside = 0;  ///< Parts of other directories below these.

  void Enter(const char* part, size_t length) {
    if (outside == 0 && inside < count && strlen(parts[inside]) == length &&
        memcmp(part, parts[inside], length) == 0) {
      ++inside;
    } else {
      ++outside;
    }
  }
  void Leave() {
    if (outside > 0) {
      --outside;
    } else if (inside > 0) {
      --inside;
    }
  }
  bool IsReached() const { return inside == count && outside == 0; }
};

bool Join(const char* tree, const char* directory, const char* rest, char* place, size_t room) {
  const size_t lengths[] = {strlen(tree), strlen(directory), strlen(rest)};
  if (lengths[0] + lengths[1] + lengths[2] >= room) return false;
  memcpy(place, tree, lengths[0]);
  memcpy(place + lengths[0], directory, lengths[1]);
  memcpy(place + lengths[0] + lengths[1], rest, lengths[2] + 1);
  return true;
}

}  // namespace

bool RedirectPath(const char* path, const char* tree, char* place, size_t room) {
  Place places[] = {{UROCE_TREE_CLASS, {"sys", "class", "infiniband"}, 3},
                    {UROCE_TREE_BUS, {"sys", "devices", UROCE_TREE_BUS_NAME}, 3},
                    {UROCE_TREE_PEERMEM, {"sys", "module", "nvidia_peermem"}, 3},
                    {UROCE_TREE_PEERS, {"sys", "kernel", "mm", "memory_peers"}, 4},
                    {UROCE_TREE_NODES, {"dev", "infiniband"}, 2}};
  if (*path != '/') return false;
  while (*path != '\0') {
    path += strspn(path, "/");
    const size_t length = strcspn(path, "/");
    const bool is_here = length == 0 || (length == 1 && path[0] == '.');
    const bool is_up = length == 2 && path[0] == '.' && path[1] == '.';
    for (Place& each : places) {
      if (is_up) each.Leave();
      if (!is_up && !is_here) each.Enter(path, length);
      // What follows may lead through links of the tree: the kernel reads it.
      if (each.IsReached()) return Join(tree, each.path, path + length, place, room);
    }
    path += length;
  }
  return false;
}

// ---- Paths of the program ----

namespace {

bool IsBelow(const char* path, const char* directory) {
  return strncmp(path, directory, strlen(directory)) == 0;
}

bool Exists(int directory, const char* path) {
  return syscall(SYS_faccessat, directory, path, F_OK) == 0;
}

/// Writes the path of the directory `fd`, and returns its length; 0: it has none.
size_t PathOf(int fd, char* place, size_t room) {
  if (fd == AT_FDCWD) {
    const long length = syscall(SYS_getcwd, place, room);
    return length > 0 ? static_cast<size_t>(length) - 1 : 0;
  }
  char link[] = "/proc/self/fd/0000000000";
  char* end = link + sizeof(link) - 1;
  char* first = end;
  for (auto left = static_cast<unsigned>(fd); left > 0 || first == end; left /= 10) {
    *--first = static_cast<char>('0' + left % 10);
  }
  memmove(link + strlen("/proc/self/fd/"), first, static_cast<size_t>(end - first) + 1);
  const long length = syscall(SYS_readlink, link, place, room);
  return length > 0 && place[0] == '/' ? static_cast<size_t>(length) : 0;
}

/// Writes the whole path of one that begins at `directory`.
bool MakeAbsolute(int directory, const char* path, char* place, size_t room) {
  const size_t before = PathOf(directory, place, room);
  const size_t length = strlen(path);
  if (before == 0 || before + 1 + length >= room) return false;
  place[before] = '/';
  memcpy(place + before + 1, path, length + 1);
  return true;
}

}  // namespace

void ProgramPath::Redirect(int directory) {
  const ErrnoKeeper keeper;
  char whole[kRoom];
  const bool is_relative = given_[0] != '/';
  if (is_relative && !MakeAbsolute(directory, given_, whole, kRoom)) return;
  const char* socket = secure_getenv("UROCE_SOCKET");
  if (socket == nullptr || socket[0] == '\0') socket = UROCE_DEFAULT_SOCKET;
  char tree[kRoom];
  const size_t length = strlen(socket);
  if (length + sizeof(UROCE_TREE_SUFFIX) > kRoom) return;
  memcpy(tree, socket, length + 1);
  memcpy(tree + length, UROCE_TREE_SUFFIX, sizeof(UROCE_TREE_SUFFIX));
  if (!RedirectPath(is_relative ? whole : given_, tree, place_, kRoom)) return;
  // The kernel's directories list the hardware, and its nodes are those of the hardware.
  const bool is_only = HidesOtherDevices();
  if (!is_only && Exists(directory, given_)) return;
  if (!is_only && !Exists(AT_FDCWD, place_)) return;
  const char* const below = place_ + strlen(tree);
  const bool is_of_gpu = IsBelow(below, UROCE_TREE_PEERMEM) || IsBelow(below, UROCE_TREE_PEERS);
  if (is_of_gpu && gpu::FindDriver() == nullptr) return;
  used_ = place_;
  is_node_ = IsBelow(below, UROCE_TREE_NODES);
}

}  // namespace uroce::shim
