// SPDX-License-Identifier: Apache-2.0
#include "nic/capture/capture.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/os/side_thread.h"

namespace uroce::nic {
namespace {

constexpr uint64_t kRingOffset = 4096;
static_assert(sizeof(uroce_capture_page) <= kRingOffset);
constexpr uint64_t kMinRingBytes = 64 << 10;
constexpr uint32_t kMaxSnapBytes = 65535;
// The kernel holds the lock of the daemon's mappings meanwhile, for less than a millisecond.
constexpr uint64_t kPopulatedAtOnce = 256 << 10;

/// Returns the bytes of one ring; `wanted_bytes` is for all rings together.
uint64_t RingBytes(const Nic& nic, uint64_t wanted_bytes) {
  const uint32_t rings = nic.workers().count();
  const uint64_t limit = std::bit_floor(nic.config().limits.capture_bytes) / rings;
  const uint64_t wanted = wanted_bytes / rings;
  return std::bit_floor(std::clamp(wanted, kMinRingBytes, std::max(limit, kMinRingBytes)));
}

/// The interfaces of the devices that are there now, in their order, as far as they are wanted.
absl::StatusOr<datapath::TapConfig::Interfaces> InterfacesOf(const Nic& nic,
                                                             const uroce_capture& request) {
  const std::string name(request.device, strnlen(request.device, sizeof(request.device)));
  datapath::TapConfig::Interfaces interfaces;
  interfaces.fill(datapath::TapConfig::kNotCaptured);
  bool any = name.empty();
  uint8_t next = 0;
  for (const auto& device : nic.devices()) {
    const uint8_t its = next++;
    if (!name.empty() && device->name() != name) continue;
    interfaces[device->index() % UROCE_MAX_DEVICES] = its;
    any = true;
  }
  if (any) return interfaces;
  return absl::NotFoundError(absl::StrCat("there is no device \"", name, "\""));
}

}  // namespace

uroce_capture_interface CaptureInterface(const NicDevice& device) {
  uroce_capture_interface interface {};
  std::snprintf(interface.name, sizeof(interface.name), "%s", device.name().c_str());
  std::copy(device.info().mac.begin(), device.info().mac.end(), interface.mac);
  interface.mtu = device.info().mtu_bytes;
  return interface;
}

absl::StatusOr<CaptureMemory> CaptureMemory::Make(Nic& nic, const uroce_capture& request) {
  const absl::StatusOr<datapath::TapConfig::Interfaces> interfaces = InterfacesOf(nic, request);
  if (!interfaces.ok()) return interfaces.status();
  const uint64_t ring_bytes = RingBytes(nic, request.ring_bytes);
  const uint64_t map_bytes = nic.workers().count() * (kRingOffset + ring_bytes);
  absl::StatusOr<Fd> file = MakeSharedFile("uroce-capture", map_bytes);
  if (!file.ok()) return file.status();
  absl::StatusOr<Mapping> mapping = MapShared(file->get(), map_bytes);
  if (!mapping.ok()) return mapping.status();
  return CaptureMemory(*std::move(file),
                       SideThread::MakeEndingOn(nic.reaper(), *std::move(mapping)), ring_bytes);
}

absl::Status CaptureMemory::Populate() const {
  for (uint64_t done = 0; done < bytes(); done += kPopulatedAtOnce) {
    const uint64_t more = std::min(kPopulatedAtOnce, bytes() - done);
    if (madvise(mapping_->data() + done, more, MADV_POPULATE_WRITE) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("capture: no memory for ", bytes(), " bytes"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Capture>> Capture::Start(Nic& nic, const uroce_capture& request,
                                                        CaptureMemory memory, Reply& reply) {
  const absl::StatusOr<datapath::TapConfig::Interfaces> interfaces = InterfacesOf(nic, request);
  if (!interfaces.ok()) return interfaces.status();
  const datapath::TapConfig config{.snap_bytes = request.snap_length == 0
                                                     ? kMaxSnapBytes
                                                     : std::min(request.snap_length, kMaxSnapBytes),
                                   .only = request.only,
                                   .interfaces = *interfaces};
  std::unique_ptr<Capture> capture(new Capture(nic, memory, config));
  reply.Add(uroce_capture_reply{.map_bytes = memory.bytes(),
                                .ring_offset = kRingOffset,
                                .ring_bytes = memory.ring_bytes_,
                                .interface_count = static_cast<uint32_t>(nic.devices().size()),
                                .ring_count = nic.workers().count()});
  for (const auto& device : nic.devices()) reply.Add(CaptureInterface(*device));
  reply.Give(std::move(memory.file_));
  return capture;
}

Capture::Capture(Nic& nic, const CaptureMemory& memory, const datapath::TapConfig& config)
    : nic_(nic), mapping_(memory.mapping_) {
  for (uint32_t worker = 0; worker < nic_.workers().count(); ++worker) {
    uint8_t* const part = mapping_->data() + worker * (kRingOffset + memory.ring_bytes_);
    taps_.emplace_back(reinterpret_cast<uroce_capture_page*>(part), part + kRingOffset,
                       memory.ring_bytes_, config);
  }
  nic_.workers().RunOnEach(
      [this](datapath::Worker& worker) { worker.AddTap(&taps_[worker.index()]); });
}

Capture::~Capture() {
  nic_.workers().RunOnEach(
      [this](datapath::Worker& worker) { worker.RemoveTap(&taps_[worker.index()]); });
}

}  // namespace uroce::nic
