// SPDX-License-Identifier: Apache-2.0
// Sends asynchronous events to one program.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/datapath/queue/record_socket.h"

namespace uroce::datapath {

/// Events of one queue pair, or of the port of one context, for one program. They are sent to the
/// socket of the program's context, or kept while the socket is full or the user's wake-ups rest
/// (WakePace). Those of a queue pair are used by the worker; nic looks inside only while it stands
/// still (Worker::Run).
class EventRecords {
 public:
  /// `element` names the queue pair, or the port, in the records.
  EventRecords(const RecordSocket& async, uint64_t element) : async_(async), element_(element) {}

  /// Sends or keeps an event. While kMaxPending events are kept, further ones are lost.
  void Raise(uint32_t event_type);
  bool has_pending() const { return pending_count_ != 0; }
  void Retry();
  /// The number of records sent.
  uint32_t written() const { return written_; }

 private:
  static constexpr uint32_t kMaxPending = 8;

  RecordSocket async_;
  uint64_t element_;
  uint32_t pending_count_ = 0;
  uint32_t written_ = 0;
  std::array<uint32_t, kMaxPending> pending_{};
};

}  // namespace uroce::datapath
