// SPDX-License-Identifier: Apache-2.0
// The outputs of the connection manager: datagrams, events, counters. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "nic/cm/types.h"
#include "pipeline/wire/cm/codec.h"

namespace uroce::nic::cm {

/// Written by one thread, that of the connection manager.
struct Counters {
  std::array<uint64_t, wire::kCmAttributeCount> received{};
  std::array<uint64_t, wire::kCmAttributeCount> sent{};
  std::array<uint64_t, wire::kCmDecodeResultCount> decoded{};  ///< MADs by result.
  uint64_t retransmitted = 0;
  uint64_t duplicates = 0;     ///< Messages that were received before.
  uint64_t unknown_id = 0;     ///< Messages for an unknown communication.
  uint64_t wrong_address = 0;  ///< Known ids, but from another sender.
  uint64_t wrong_state = 0;    ///< Messages that the state of their communication does not allow.
  uint64_t stale = 0;          ///< REQs and REPs whose queue pair is already in a connection.
  uint64_t no_listener = 0;
  uint64_t backlog_full = 0;  ///< REQs and SIDR_REQs dropped: the listener's backlog is full.
  uint64_t over_rate = 0;     ///< Dropped: one source sends requests too fast.
  uint64_t no_room = 0;       ///< Dropped: the limit of communications is reached.
};

/// Messages and events in the order in which they arose. The caller empties it after each call.
struct Outbox {
  std::deque<Datagram> datagrams;
  std::deque<Event> events;
  Counters counters;

  void Send(const Route& route, const wire::CmMessage& message) {
    ++counters.sent[static_cast<size_t>(IndexOf(message.attribute()))];
    datagrams.push_back({route, message});
  }
  void Raise(Event event) { events.push_back(event); }
};

}  // namespace uroce::nic::cm
