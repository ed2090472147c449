// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as the life of one queue pair: packets, works, time, failures. The shell of the
// hostile tests runs it and checks the invariants.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "pipeline/wire/packet.h"
#include "tests/sim/hostile_shell.h"

namespace uroce {
struct Conversation;
}

namespace uroce::sim {

/// One event. Fields that its kind does not need are ignored.
struct CoreRecord {
  enum Kind : uint8_t { kRequest, kResponse, kPost, kTime, kSend, kState, kKinds };
  enum Flag : uint8_t {
    kAckRequest = 1 << 0,
    kSolicited = 1 << 1,
    kNoReceive = 1 << 2,
    kBadReceive = 1 << 3,
    kEffectFails = 1 << 4,  ///< kSend: the first packet's bytes cannot be read.
    kFence = 1 << 5,
  };
  uint8_t kind = 0;  ///< Modulo kKinds.
  uint8_t flags = 0;
  uint8_t opcode = 0;    ///< Of a packet (BTH) or of a work.
  uint8_t syndrome = 0;  ///< kTime: 2^syndrome ns.
  uint16_t psn = 0;      ///< Relative to the first PSN of its direction.
  uint16_t size = 0;     ///< Bytes of the payload. kSend: how many packets.
  uint32_t length = 0;   ///< Of a work or of the RETH.
  uint32_t msn = 0;      ///< 24 bits; also the first 32 bits of a map.
};
static_assert(sizeof(CoreRecord) == 16);

/// The first record sets the kind of queue pair.
template <typename QueuePair>
class CoreScript {
 public:
  /// False when an invariant does not hold.
  static bool Holds(std::span<const uint8_t> bytes) {
    CoreRecord setting;
    if (!Take(bytes, setting)) return true;
    HostileShell<QueuePair> shell(ConfigOf(setting), AttributesOf(setting));
    for (CoreRecord record; Take(bytes, record) && shell.fault().empty();) Play(record, shell);
    shell.End();
    return shell.fault().empty();
  }

 private:
  using Shell = HostileShell<QueuePair>;
  static constexpr uint32_t kMostBytes = 5000;

  static bool Take(std::span<const uint8_t>& bytes, CoreRecord& record) {
    if (bytes.size() < sizeof record) return false;
    std::memcpy(&record, bytes.data(), sizeof record);
    bytes = bytes.subspan(sizeof record);
    return true;
  }

  static typename Shell::Config ConfigOf(const CoreRecord& setting) {
    typename Shell::Config config;
    config.signal_all = true;
    config.max_send_works = 16;
    config.shared_receive = (setting.flags & 1) != 0;
    if constexpr (Shell::kReliable) {
      config.selective_repeat = (setting.flags & 2) != 0;
      if ((setting.flags & 4) != 0) config.service = wire::Service::kXrc;
    }
    return config;
  }
  static typename Shell::Attributes AttributesOf(const CoreRecord& setting) {
    typename Shell::Attributes attributes;
    attributes.remote_write = (setting.flags & 8) == 0;
    attributes.path_mtu_bytes = 256u << (setting.opcode % 5);
    attributes.rq_psn = attributes.sq_psn = wire::Psn(setting.length);
    if constexpr (Shell::kReliable) {
      attributes.remote_read = attributes.remote_atomic = (setting.flags & 16) == 0;
      attributes.max_rd_atomic = setting.syndrome % 17;
      attributes.max_dest_rd_atomic = static_cast<uint8_t>(setting.size % 17);
      attributes.timeout = static_cast<uint8_t>(setting.psn % 3);
      attributes.retry_count = static_cast<uint8_t>(setting.psn / 4 % 8);
      attributes.rnr_retry = attributes.retry_count;
      attributes.selective_repeat = true;
    }
    return attributes;
  }

  static void Play(const CoreRecord& record, Shell& shell) {
    switch (record.kind % CoreRecord::kKinds) {
      case CoreRecord::kPost:
        return Post(record, shell);
      case CoreRecord::kTime:
        shell.Pass(Nanos(int64_t{1} << (record.syndrome % 32)));
        shell.EndLocalWork((record.flags & CoreRecord::kEffectFails) != 0);
        return;
      case CoreRecord::kSend:
        shell.BeginLocalWork();
        shell.SendPackets(record.size % 64,
                          (record.flags & CoreRecord::kEffectFails) != 0 ? 0 : UINT32_MAX);
        return;
      case CoreRecord::kState:
        if (shell.qp().state() == transport::QpState::kErr) return shell.Reconnect();
        (record.flags & 1) != 0 ? shell.Drain() : shell.Resume();
        return;
      default:
        shell.Receive(PacketOf(record, shell), ReactionOf(record));
        // There is room for so many completions, and the shell polls after each burst.
        shell.PollCompletions();
    }
  }

  static void Post(const CoreRecord& record, Shell& shell) {
    transport::SendWork work;
    work.opcode = static_cast<transport::WorkOpcode>(record.opcode);
    work.length_bytes = record.length;
    work.fence = (record.flags & CoreRecord::kFence) != 0;
    work.solicited = (record.flags & CoreRecord::kSolicited) != 0;
    shell.Post(work);
  }

  static Reaction ReactionOf(const CoreRecord& record) {
    const bool none = (record.flags & CoreRecord::kNoReceive) != 0;
    return {.receive_bytes = none ? 0 : 1 + record.msn % 10'000,
            .receive_malformed = (record.flags & CoreRecord::kBadReceive) != 0,
            .effect_fails = (record.flags & CoreRecord::kEffectFails) != 0,
            .original = record.length};
  }

  /// A map that repeats the bits of the record.
  static std::span<const uint8_t> MapOf(const CoreRecord& record) {
    static std::array<uint8_t, wire::kMaxKeptMapBytes> map;
    const uint64_t bits = uint64_t{record.length} << 32 | record.msn;
    const auto kept = [bits](uint32_t first) { return bits ^ first; };
    return std::span(map).first(
        wire::WriteKeptMap(record.size % (wire::kMaxKeptPackets + 1), kept, map));
  }

  static wire::Packet PacketOf(const CoreRecord& record, const Shell& shell) {
    static constexpr std::array<uint8_t, kMostBytes> kBytes{};
    wire::Packet packet;
    wire::TransportHeader& header = packet.header;
    header.opcode = wire::Opcode{record.opcode};
    const bool request = record.kind % CoreRecord::kKinds == CoreRecord::kRequest;
    const auto& attributes = shell.attributes();
    header.psn = (request ? attributes.rq_psn : attributes.sq_psn) + record.psn;
    header.ack_request = (record.flags & CoreRecord::kAckRequest) != 0;
    header.solicited = (record.flags & CoreRecord::kSolicited) != 0;
    header.aeth = {.syndrome = record.syndrome, .msn = record.msn & 0xffffff};
    header.reth.length_bytes = record.length;
    header.atomic.va = record.msn & 0xff;
    header.xrc_srqn = record.syndrome & 1;
    header.deth.qkey = record.syndrome & 1;
    packet.payload = std::span(kBytes).first(record.size % (kMostBytes + 1));
    if (wire::IsOfManufacturer(header.opcode)) packet.payload = MapOf(record);
    return packet;
  }
};

/// A golden conversation as the script of one end: the works that it posts, the packets that it
/// gets.
std::vector<CoreRecord> ScriptOfRequester(const Conversation& conversation);
std::vector<CoreRecord> ScriptOfReceiver(const Conversation& conversation);

}  // namespace uroce::sim
