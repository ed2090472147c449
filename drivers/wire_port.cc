// SPDX-License-Identifier: Apache-2.0
#include "drivers/wire_port.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <array>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

constexpr uint64_t kSpeedBps = 100'000'000'000;

/// One direction: a ring with one producer and one consumer. Frees what is left in it.
class Lane {
 public:
  explicit Lane(rte_ring* ring) : ring_(ring) {}
  ~Lane() {
    void* frame = nullptr;
    while (rte_ring_sc_dequeue(ring_, &frame) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
    rte_ring_free(ring_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  rte_ring* ring() const { return ring_; }

 private:
  rte_ring* ring_;
};

class WirePort final : public Port {
 public:
  WirePort(const WireEndConfig& config, std::shared_ptr<Lane> out, std::shared_ptr<Lane> in)
      : config_(config), out_(std::move(out)), in_(std::move(in)) {}

  uint16_t ReceiveBurst(rte_mbuf** frames, uint16_t count, Nanos) override {
    void** const objects = reinterpret_cast<void**>(frames);
    return static_cast<uint16_t>(rte_ring_sc_dequeue_burst(in_->ring(), objects, count, nullptr));
  }
  uint16_t TransmitBurst(rte_mbuf** frames, uint16_t count, Nanos) override {
    void* const* const objects = reinterpret_cast<void* const*>(frames);
    return static_cast<uint16_t>(rte_ring_sp_enqueue_burst(out_->ring(), objects, count, nullptr));
  }
  uint16_t TransmitRoom() const override {
    return static_cast<uint16_t>(rte_ring_free_count(out_->ring()));
  }
  bool wakes_itself() const override { return true; }
  PortInfo Info() const override {
    return {.mac = config_.mac,
            .mtu_bytes = config_.mtu_bytes,
            .link_up = true,
            .speed_bps = kSpeedBps,
            .driver = "wire",
            .interface = "",
            .ifindex = 0};
  }

 private:
  const WireEndConfig config_;
  const std::shared_ptr<Lane> out_;
  const std::shared_ptr<Lane> in_;
};

/// Names of rings are unique in a process.
absl::StatusOr<std::shared_ptr<Lane>> MakeLane(uint32_t depth_frames) {
  static std::atomic<uint32_t> made{0};
  const std::string name = absl::StrCat("uroce_wire_", made.fetch_add(1));
  constexpr unsigned kExactDepth = RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ;
  rte_ring* const ring = rte_ring_create(name.c_str(), depth_frames, SOCKET_ID_ANY, kExactDepth);
  if (ring != nullptr) return std::make_shared<Lane>(ring);
  return absl::ResourceExhaustedError(
      absl::StrCat("wire: no ring of ", depth_frames, " frames: ", rte_strerror(rte_errno)));
}

}  // namespace

absl::StatusOr<Wire> MakeWire(const WireEndConfig& first, const WireEndConfig& second,
                              uint32_t depth_frames) {
  if (depth_frames == 0 || depth_frames > kMaxWireDepthFrames) {
    return absl::InvalidArgumentError(
        absl::StrCat("wire: depth of ", depth_frames, " frames, 1 to ", kMaxWireDepthFrames));
  }
  absl::StatusOr<std::shared_ptr<Lane>> forth = MakeLane(depth_frames);
  if (!forth.ok()) return forth.status();
  absl::StatusOr<std::shared_ptr<Lane>> back = MakeLane(depth_frames);
  if (!back.ok()) return back.status();
  Wire wire;
  wire.first = std::make_unique<WirePort>(first, *forth, *back);
  wire.second = std::make_unique<WirePort>(second, *back, *forth);
  return wire;
}

Mac LocalMac(std::string_view name, uint32_t index) {
  // FNV-1a: the address must be the same in every run and every build.
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const char letter : name) add(static_cast<uint8_t>(letter));
  for (int shift = 0; shift < 32; shift += 8) add(static_cast<uint8_t>(index >> shift));
  Mac mac;
  for (size_t i = 0; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(hash >> (8 * i));
  constexpr uint8_t kLocallyAdministered = 0x02;
  constexpr uint8_t kMulticast = 0x01;
  mac[0] = static_cast<uint8_t>((mac[0] | kLocallyAdministered) & ~kMulticast);
  return mac;
}

}  // namespace uroce::drivers
