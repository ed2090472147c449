// SPDX-License-Identifier: Apache-2.0
// The outputs of the connection manager: datagrams, events, counters. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "nic/cm/types.h"
#include "pipeline/wire/cm/codec.h"

namespace uroce::nic::cm {

/// One writer, the thread of the connection manager.
struct Counters {
  std::array<uint64_t, wire::kCmAttributeCount> received{};
  std::array<uint64_t, wire::kCmAttributeCount> sent{};
  std::array<uint64_t, wire::kCmDecodeResultCount> decoded{};  ///< MADs by result.
  uint64_t retransmitted = 0;
  uint64_t duplicates = 0;     ///< Messages that were there before.
  uint64_t unknown_id = 0;     ///< Messages of no communication that we know.
  uint64_t wrong_address = 0;  ///< Right ids, from somebody else.
  uint64_t wrong_state = 0;    ///< Messages that their communication does not take.
  uint64_t stale = 0;          ///< REQs and REPs with a queue pair that is in a connection.
  uint64_t no_listener = 0;
  uint64_t backlog_full = 0;  ///< REQs and SIDR_REQs dropped: a listener takes no more ...
  uint64_t over_rate = 0;     ///< ... those of a source come too fast ...
  uint64_t no_room = 0;       ///< ... there are as many communications as may be.
};

/// Messages and events in the order in which they arose. Emptied by the caller after each call.
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
