// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/hooks/redirected_path.h"

#include <string.h>

namespace uroce::shim {
namespace {

constexpr const char* kDirectories[] = {"/sys/class/infiniband", "/dev/infiniband"};

/// Whether `path` is the directory or in it, and does not merely begin with its name.
bool IsUnder(const char* path, const char* directory) {
  const size_t length = strlen(directory);
  return strncmp(path, directory, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

}  // namespace

bool RedirectPath(const char* path, const char* tree, char* place, size_t room) {
  bool is_ours = false;
  for (const char* directory : kDirectories) is_ours = is_ours || IsUnder(path, directory);
  if (!is_ours) return false;
  const size_t tree_length = strlen(tree);
  const size_t path_length = strlen(path);
  if (tree_length + path_length >= room) return false;
  memcpy(place, tree, tree_length + 1);
  memcpy(place + tree_length, path, path_length + 1);
  return true;
}

}  // namespace uroce::shim
