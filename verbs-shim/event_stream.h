// SPDX-License-Identifier: Apache-2.0
// Events as they come from the daemon on one fd: a completion channel's, or the asynchronous ones
// of a context.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "pipeline/shm/abi/uroce_arena.h"
#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/event_table.h"

namespace uroce::shim {

/// The fd can be polled as long as an event waits that Next gives out, and no longer: records of an
/// object that ends are taken out of the midst of the stream. A socket lets go only of what is
/// first: so as many records as have lost their meaning are taken from there, and those of them
/// that have not are kept here, ahead of the stream. Each record read from the fd then stands for
/// the first of those.
///
/// A part of each channel and context, zeroed memory at first. Any thread.
class EventStream {
 public:
  enum class Result {
    kEvent,
    kError,  ///< errno says why: EAGAIN and EINTR, which are the program's own doing; EIO.
    kEnd     ///< The daemon has closed its end.
  };

  /// Waits for the next event of an object that the program still has, or of a port; `object` is
  /// null for a port. kError with EIO: it names nothing, or is of another kind than this stream's.
  Result Next(DaemonConnection& connection, int fd, bool of_completions, uroce_event_record& record,
              void** object);
  /// Takes out the records of objects that `table` does not have any more. It waits for nothing.
  void DropEnded(EventTable& table, int fd);
  /// At the stream's end.
  void Free();

 private:
  /// Of the records ahead and `last`, read just now, the first that is of an object that is there.
  EventTable::Found TakeFirst(EventTable& table, int fd, const uroce_event_record& last,
                              bool of_completions, uroce_event_record& record, void** object);
  void DropEndedLocked(EventTable& table, int fd);
  /// Takes the first record off the stream, and leaves room ahead for one more. False: there is
  /// none, or no memory to keep it.
  bool TakeAhead(EventTable& table, int fd);

  pthread_mutex_t mutex_;
  uroce_event_record* ahead_;
  uint32_t count_;
  uint32_t capacity_;
};

/// What an event of `event_type` is of. False: of a port or a device.
bool KindOfEvent(uint32_t event_type, EventKind* kind);

}  // namespace uroce::shim
