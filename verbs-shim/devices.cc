// SPDX-License-Identifier: Apache-2.0
// The device list: our devices first, then those of the real library; and ibv_read_sysfs_file for
// the files of our devices.
#include <stdio.h>
#include <string.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"

namespace uroce::shim {

// ---- The list ----

constinit Device g_devices[UROCE_MAX_DEVICES] = {};

namespace {

UROCE_REAL(ibv_get_device_list, "IBVERBS_1.1");
UROCE_REAL(ibv_free_device_list, "IBVERBS_1.1");
UROCE_REAL(ibv_get_device_name, "IBVERBS_1.1");
UROCE_REAL(ibv_get_device_guid, "IBVERBS_1.1");
UROCE_REAL(ibv_get_device_index, "IBVERBS_1.9");

pthread_mutex_t g_devices_mutex = PTHREAD_MUTEX_INITIALIZER;

/// The bytes before a list that we return.
struct ListHeader {
  uint64_t magic;
  ibv_device** real;
};
constexpr uint64_t kListMagic = 0x7473696c6563726f;

struct DeviceListReply {
  uroce_reply header;
  uroce_device_info devices[UROCE_MAX_DEVICES];
};

/// The slot of the device with this name, or a free one; null when all are used.
Device* SlotOf(const char* name) {
  for (Device& device : g_devices) {
    if (device.is_used && strcmp(device.verbs.name, name) == 0) return &device;
  }
  for (Device& device : g_devices) {
    if (!device.is_used) return &device;
  }
  return nullptr;
}

void Describe(Device& device, const uroce_device_info& info) {
  device.info = info;
  if (device.is_used) return;  // Programs may be reading it now, and names never change.
  ibv_device& verbs = device.verbs;
  verbs.node_type = IBV_NODE_CA;
  verbs.transport_type = IBV_TRANSPORT_IB;
  memcpy(verbs.name, info.name, sizeof(verbs.name));
  snprintf(verbs.dev_name, sizeof(verbs.dev_name), "%s", info.name);
  snprintf(verbs.dev_path, sizeof(verbs.dev_path), "/sys/class/infiniband_verbs/%s", info.name);
  snprintf(verbs.ibdev_path, sizeof(verbs.ibdev_path), "/sys/class/infiniband/%s", info.name);
  device.is_used = true;
}

/// Fills `found` with the daemon's devices, and returns their number; 0 without a daemon.
uint32_t ListOurs(Device** found) {
  DaemonConnection* connection = DaemonConnection::Get();
  if (connection == nullptr) return 0;
  uroce_request request = {UROCE_LIST_DEVICES, 0};
  auto* reply = Make<DeviceListReply>();
  if (reply == nullptr) return 0;
  uint32_t count = 0;
  const ReplyRoom room = {reply, sizeof(reply->header), sizeof(*reply)};
  if (connection->Command(&request, sizeof(request), room) == 0) {
    const auto reported = static_cast<uint32_t>((reply->header.size - sizeof(uroce_reply)) /
                                                sizeof(uroce_device_info));
    const MutexLock lock(g_devices_mutex);
    for (uint32_t i = 0; i < reported; ++i) {
      uroce_device_info& info = reply->devices[i];
      info.name[sizeof(info.name) - 1] = '\0';
      info.firmware[sizeof(info.firmware) - 1] = '\0';
      Device* device = SlotOf(info.name);
      if (device == nullptr) break;
      Describe(*device, info);
      found[count++] = device;
    }
  }
  Free(reply);
  return count;
}

ibv_device** List(int* count) {
  Device* ours[UROCE_MAX_DEVICES];
  const uint32_t our_count = ListOurs(ours);
  int real_count = 0;
  // Without kernel RDMA or a real library, its list is empty.
  ibv_device** real =
      HidesOtherDevices() ? nullptr : real_ibv_get_device_list.CallOr(nullptr, &real_count);
  if (real == nullptr) real_count = 0;

  const size_t total = our_count + static_cast<size_t>(real_count);
  constexpr size_t kPointerBytes = sizeof(void*);
  auto* header =
      static_cast<ListHeader*>(calloc(1, sizeof(ListHeader) + (total + 1) * kPointerBytes));
  if (header == nullptr) {
    if (real != nullptr) real_ibv_free_device_list.Call(real);
    return FailWith(ENOMEM);
  }
  header->magic = kListMagic;
  header->real = real;
  auto** list = reinterpret_cast<ibv_device**>(header + 1);
  for (uint32_t i = 0; i < our_count; ++i) list[i] = &ours[i]->verbs;
  for (int i = 0; i < real_count; ++i) list[our_count + static_cast<uint32_t>(i)] = real[i];
  if (count != nullptr) *count = static_cast<int>(total);
  return list;
}

void FreeList(ibv_device** list) {
  if (list == nullptr) return;
  ListHeader* header = reinterpret_cast<ListHeader*>(list) - 1;
  if (header->magic != kListMagic) {  // The real library made the list, not us.
    real_ibv_free_device_list.Call(list);
    return;
  }
  if (header->real != nullptr) real_ibv_free_device_list.Call(header->real);
  header->magic = 0;
  free(header);
}

}  // namespace

Device* FindDevice(uint32_t index) {
  const MutexLock lock(g_devices_mutex);
  for (Device& device : g_devices) {
    if (device.is_used && device.info.index == index) return &device;
  }
  return nullptr;
}

bool ListAgain(const Device& device) {
  Device* ours[UROCE_MAX_DEVICES];
  const uint32_t count = ListOurs(ours);
  for (uint32_t i = 0; i < count; ++i) {
    if (ours[i] == &device) return true;
  }
  return false;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 0;
  const int saved = errno;
  ibv_device** list = List(count);
  if (list != nullptr) errno = saved;
  return list;
}

UROCE_EXPORT void ibv_free_device_list(ibv_device** list) { FreeList(list); }

UROCE_EXPORT const char* ibv_get_device_name(ibv_device* device) {
  return IsOurs(device) ? device->name : real_ibv_get_device_name.CallOr(nullptr, device);
}

UROCE_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  return IsOurs(device) ? Ours(device)->info.node_guid : real_ibv_get_device_guid.CallOr(0, device);
}

// The kernel's index of an RDMA device: our devices have none.
UROCE_EXPORT int ibv_get_device_index(ibv_device* device) {
  return IsOurs(device) ? -1 : real_ibv_get_device_index.CallOr(-1, device);
}

}  // extern "C"

// ---- ibv_read_sysfs_file ----

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
