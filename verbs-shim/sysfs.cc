// SPDX-License-Identifier: Apache-2.0
// Answers ibv_read_sysfs_file for the sysfs files of our devices.
#include <stdio.h>
#include <string.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"

extern "C" int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer,
                                   size_t size);

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_read_sysfs_file, "IBVERBS_1.0");

const Device* FindByPath(const char* directory) {
  for (const Device& device : g_devices) {
    if (device.is_used && strcmp(device.verbs.ibdev_path, directory) == 0) return &device;
  }
  return nullptr;
}

/// Returns the bytes written, like the real function; -1 with ENOENT for files that we do not have.
int Answer(const Device& device, const char* file, char* buffer, size_t size) {
  const char* text = nullptr;
  if (strcmp(file, "fw_ver") == 0) text = device.info.firmware;
  if (strcmp(file, "node_type") == 0) text = "1: CA";
  if (strcmp(file, "board_id") == 0) text = "uroce";
  if (text == nullptr) {
    errno = ENOENT;
    return -1;
  }
  const int length = snprintf(buffer, size, "%s", text);
  return length < static_cast<int>(size) ? length : static_cast<int>(size) - 1;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" UROCE_EXPORT int ibv_read_sysfs_file(const char* directory, const char* file,
                                                char* buffer, size_t size) {
  const Device* device = FindByPath(directory);
  if (device != nullptr && size != 0) return Answer(*device, file, buffer, size);
  return real_ibv_read_sysfs_file.CallOr(-1, directory, file, buffer, size);
}
