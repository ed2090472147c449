// SPDX-License-Identifier: Apache-2.0
// Invariants of all code that reads management datagrams, whatever happens to the datagrams on the
// way: the connection managers of two hosts while programs connect, and the negotiation with peers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nic/peers/capability_negotiation.h"
#include "tests/fuzz/management/ucma_script.h"
#include "tests/fuzz/script_reader.h"

namespace uroce::fuzz {

/// What a script does to each MAD on its way. After the script's end, MADs pass unchanged.
enum MadFate : uint8_t {
  kPass,
  kLose,
  kRepeat,         ///< The MAD is delivered once more, after those under way.
  kAlter,          ///< Count; an offset and a value each. Then the MAD is delivered.
  kForge,          ///< Like kAlter, for an additional copy.
  kFromOtherHost,  ///< Host; then like kForge: the copy seems to come from another host.
  kTell,           ///< Path; length; bytes: a MAD to the negotiation, after a header of its class.
  kAnswer,    ///< Path; status; features: the correct answer to the last question on that path.
  kUse,       ///< Path: a queue pair starts to use it, or stops.
  kPassTime,  ///< Exponent: 2^n us, for the negotiation.
  kFateCount
};

class MadsRun {
 public:
  explicit MadsRun(std::span<const uint8_t> script)
      : reader_(script), negotiation_({.features = {1}, .instance = 5, .most_peers = 4}, &Draw) {
    run_.network().on_delivery = [this](auto& packet) { return Decide(packet); };
  }

  /// Runs two programs that connect by `space`. Returns whether all invariants hold to their end.
  bool Holds(uint16_t space) {
    const std::vector<uint8_t> programs = nic::ucma::GoodUcmaScript(space);
    return run_.Holds(programs) && holds_;
  }

 private:
  using Packet = nic::rdma_cm::Network::Packet;
  static constexpr uint32_t kPaths = 6;
  static constexpr int kMostForged = 200;

  static uint64_t Draw() {
    static uint64_t last = 0;
    return ++last * 0x9e3779b97f4a7c15;
  }

  bool Decide(Packet& packet) {
    for (;;) {
      const uint32_t fate = reader_.Number(1) % kFateCount;
      switch (fate) {
        case kPass:
          return true;
        case kLose:
          return false;
        case kRepeat:
          Forge(packet);
          return true;
        case kAlter:
          Alter(packet);
          return true;
        case kForge:
        case kFromOtherHost: {
          Packet copy = packet;
          if (fate == kFromOtherHost)
            copy.route.local.bytes[15] = static_cast<uint8_t>(reader_.Number(1));
          Alter(copy);
          Forge(copy);
          return true;
        }
        default:
          Talk(fate);
          break;
      }
    }
  }
  void Alter(Packet& packet) {
    for (uint32_t left = reader_.Number(1) % 8; left != 0; --left) {
      const uint32_t offset = reader_.Number(1);
      packet.mad[offset] = static_cast<uint8_t>(reader_.Number(1));
    }
  }
  void Forge(const Packet& packet) {
    if (forged_++ < kMostForged) run_.network().packets.push_back(packet);
  }

  static nic::peers::Key KeyOf(uint32_t path) {
    return {.local = nic::rdma_cm::Ip(1), .remote = nic::rdma_cm::Ip(static_cast<uint8_t>(path))};
  }
  void Talk(uint32_t fate) {
    if (fate == kPassTime) {
      now_ = now_ + Nanos(int64_t{1000} << reader_.Number(1) % 28);
      negotiation_.OnDeadline(now_);
      return Listen();
    }
    const uint32_t path = reader_.Number(1) % kPaths;
    if (fate == kUse) {
      const uint32_t user = path % 2;
      holders_[path] =
          holders_[path] == nullptr ? negotiation_.Use(KeyOf(path), user, now_) : nullptr;
    } else if (fate == kAnswer) {
      wire::CapabilitiesMad mad{.method = wire::MadMethod::kGetResponse,
                                .status = static_cast<uint16_t>(reader_.Number(1)),
                                .transaction_id = asked_[path]};
      mad.capabilities = {.features = reader_.Number(1), .instance = 7};
      was_answered_[path] = was_answered_[path] || asked_[path] != 0;
      negotiation_.OnMad(KeyOf(path), wire::EncodeCapabilities(mad), now_);
    } else {
      auto bytes = wire::EncodeCapabilities({.transaction_id = 9});
      const std::vector<uint8_t> said = reader_.Bytes(reader_.Number(1));
      std::copy(said.begin(), said.end(), bytes.begin());
      negotiation_.OnMad(KeyOf(path), bytes, now_);
    }
    Listen();
  }
  /// Takes the results of the negotiation. A peer that answered no question must not be believed.
  void Listen() {
    nic::peers::Datagram datagram;
    while (negotiation_.PollDatagram(datagram)) {
      const uint32_t path = datagram.key.remote.bytes[15];
      if (datagram.mad.method == wire::MadMethod::kGet) asked_[path] = datagram.mad.transaction_id;
    }
    nic::peers::Change change;
    while (negotiation_.PollChange(change)) {
      const uint32_t path = change.key.remote.bytes[15];
      holds_ = holds_ && (!change.selective_repeat || was_answered_[path]);
    }
    for (uint32_t path = 0; path < kPaths; ++path) {
      const bool agrees = holders_[path] != nullptr && holders_[path]->selective_repeat();
      holds_ = holds_ && (!agrees || was_answered_[path]);
    }
  }

  ScriptReader reader_;
  nic::ucma::UcmaRun run_;
  nic::peers::CapabilityNegotiation negotiation_;
  std::array<nic::peers::Holder, kPaths> holders_;
  std::array<uint64_t, kPaths> asked_ = {};
  std::array<bool, kPaths> was_answered_ = {};
  Nanos now_{1'000'000'000};
  int forged_ = 0;
  bool holds_ = true;
};

inline bool MadsHold(std::span<const uint8_t> script) {
  return MadsRun(script).Holds(RDMA_PS_TCP) && MadsRun(script).Holds(RDMA_PS_UDP);
}

/// Networks that lose, repeat and change a few MADs, and a peer that agrees.
inline std::vector<std::vector<uint8_t>> GoodMadsScripts() {
  return {{kPass, kRepeat, kPass, kRepeat, kRepeat, kRepeat},
          {kLose, kPass, kLose, kPass, kLose, kLose},
          {kForge, 2, 17, 0x11, 60, 9, kForge, 1, 24, 1, kPass, kForge, 1, 40, 7},
          {kFromOtherHost, 3, 1, 28, 1, kFromOtherHost, 2, 1, 17, 0x15, kAlter, 1, 255, 1},
          {kUse, 2, kAnswer, 2, 0, 1, kPassTime, 21, kAnswer, 2, 0, 1, kPass, kUse, 2, kPass},
          {kUse, 3, kTell, 3, 0, kPassTime, 14, kAnswer, 3, 12, 0, kPassTime, 27, kTell, 3, 0}};
}

}  // namespace uroce::fuzz
