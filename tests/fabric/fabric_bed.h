// SPDX-License-Identifier: Apache-2.0
// A fabric whose frames are numbered IPv4 packets, and what became of them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "pipeline/fabric/fabric.h"

namespace uroce::fabric {

/// At 1 Gb/s a frame of kFrameBytes takes the line for 8 us.
inline constexpr uint32_t kFrameBytes = 976;
inline constexpr Nanos kFrameTime{8'000};

inline Mac MacOf(uint32_t host) { return {2, 0, 0, 0, 0, static_cast<uint8_t>(host)}; }
inline constexpr Mac kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

/// An IPv4 UDP packet as the fabric looks at it; its last four bytes are its number.
struct Packet {
  Mac destination = MacOf(1);
  uint32_t number = 0;
  uint16_t source_port = 0xc000;
  uint8_t traffic_class = 0;
  uint32_t length_bytes = kFrameBytes;
};

class FabricBed : public testing::Test, public Surroundings {
 public:
  struct Delivery {
    uint32_t host = 0;
    uint32_t number = 0;
    Nanos arrival;
    uint8_t traffic_class = 0;
  };

  ~FabricBed() override { EXPECT_TRUE(buffers_.empty()) << "frames that the test did not free"; }
  void TearDown() override { fabric_.reset(); }

  Fabric& fabric() { return *fabric_; }
  void Make(const FabricConfig& config = {}) {
    fabric_.reset();
    fabric_ = std::make_unique<Fabric>(*this, config);
  }
  /// `hosts` at one switch.
  void MakeStar(uint32_t hosts, const SwitchConfig& config, const LinkConfig& link) {
    Make();
    fabric_->AddSwitch(config);
    for (uint32_t host = 0; host < hosts; ++host) fabric_->AddHost(0, MacOf(host), link);
  }

  void Send(uint32_t host, const Packet& packet, Nanos now) {
    fabric_->Send(host, MakeFrame(packet), now);
  }
  /// Until nothing is on its way.
  void Finish() {
    while (fabric_->NextEvent() != kNever) fabric_->Advance(fabric_->NextEvent());
  }

  Frame MakeFrame(const Packet& packet) {
    auto* const bytes = new std::vector<uint8_t>(packet.length_bytes);
    buffers_.insert(bytes);
    auto at = bytes->begin();
    std::copy(packet.destination.begin(), packet.destination.end(), at);
    const std::array<uint8_t, 28> headers = {0x45,
                                             packet.traffic_class,
                                             0,
                                             0,
                                             0,
                                             0,
                                             0x40,
                                             0,
                                             64,
                                             17,
                                             0,
                                             0,
                                             10,
                                             0,
                                             0,
                                             1,
                                             10,
                                             0,
                                             0,
                                             2,
                                             static_cast<uint8_t>(packet.source_port >> 8),
                                             static_cast<uint8_t>(packet.source_port),
                                             0x12,
                                             0xb7,
                                             0,
                                             0,
                                             0,
                                             0};
    (*bytes)[12] = 8;
    std::copy(headers.begin(), headers.end(), at + 14);
    for (int i = 0; i < 4; ++i) {
      *(bytes->end() - 1 - i) = static_cast<uint8_t>(packet.number >> (8 * i));
    }
    return {.bytes = bytes->data(), .length_bytes = packet.length_bytes, .owner = bytes};
  }

  const std::vector<Delivery>& deliveries() const { return deliveries_; }
  std::vector<uint32_t> NumbersAt(uint32_t host) const {
    std::vector<uint32_t> numbers;
    for (const Delivery& each : deliveries_) {
      if (each.host == host) numbers.push_back(each.number);
    }
    return numbers;
  }
  uint32_t freed() const { return freed_; }
  /// From switch to host.
  const Link& PortOf(uint32_t host) { return fabric_->link(2 * fabric_->CableOf(host) + 1); }
  const Link& LinkFrom(uint32_t host) { return fabric_->link(2 * fabric_->CableOf(host)); }

  // ---- Surroundings ----
  void Deliver(uint32_t host, const Frame& frame, Nanos arrival) override {
    uint32_t number = 0;
    for (uint32_t i = 4; i > 0; --i) number = number << 8 | frame.bytes[frame.length_bytes - i];
    deliveries_.push_back({host, number, arrival, frame.bytes[15]});
    Give(frame);
  }
  std::optional<Frame> Copy(const Frame& frame) override {
    auto* const bytes = new std::vector<uint8_t>(*static_cast<std::vector<uint8_t>*>(frame.owner));
    buffers_.insert(bytes);
    return Frame{bytes->data(), frame.length_bytes, bytes};
  }
  void Free(const Frame& frame) override {
    ++freed_;
    Give(frame);
  }

 private:
  void Give(const Frame& frame) {
    auto* const bytes = static_cast<std::vector<uint8_t>*>(frame.owner);
    EXPECT_EQ(buffers_.erase(bytes), 1u) << "a frame freed twice";
    delete bytes;
  }

  std::unique_ptr<Fabric> fabric_;
  std::set<std::vector<uint8_t>*> buffers_;
  std::vector<Delivery> deliveries_;
  uint32_t freed_ = 0;
};

}  // namespace uroce::fabric
