// SPDX-License-Identifier: Apache-2.0
// Completion and asynchronous events: the streams that the daemon writes, ibv_get_*_event and
// ibv_ack_*_events.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "pipeline/shm/abi/uroce_arena.h"
#include "verbs-shim/connection_tables.h"
#include "verbs-shim/daemon_connection.h"

namespace uroce::shim {

/// The program polls the fd, so the fd must be readable exactly while Next has an event to give.
/// When an object ends, its records have to leave the middle of the stream, but a socket gives up
/// only its first records. So as many records as became void are read from the fd, and the valid
/// ones among them are kept here, ahead of the stream. Each record that Next reads from the fd then
/// stands for the first of those kept here.
///
/// A member of each channel and context, which begins as zeroed memory. Any thread.
class EventStream {
 public:
  enum class Result {
    kEvent,
    kError,  ///< See errno: EAGAIN and EINTR, which the program caused; or EIO.
    kEnd     ///< The daemon has closed its end.
  };

  /// Waits for the next event of an object that the program still has, or of a port: `object` is
  /// then null. kError with EIO: the record names no object, or one of another kind than this
  /// stream's.
  Result Next(DaemonConnection& connection, int fd, bool of_completions, uroce_event_record& record,
              void** object);
  /// Removes the records of objects that `table` no longer has. Never blocks.
  void DropEnded(EventTable& table, int fd);
  /// Frees the memory, when the stream ends.
  void Free();

 private:
  /// Of the records ahead and `last`, which was just read: the first one whose object still exists.
  EventTable::Found TakeFirst(EventTable& table, int fd, const uroce_event_record& last,
                              bool of_completions, uroce_event_record& record, void** object);
  void DropEndedLocked(EventTable& table, int fd);
  /// Takes the first record off the stream, and makes room ahead for one more. False: there is no
  /// record, or no memory to keep it.
  bool TakeAhead(EventTable& table, int fd);

  pthread_mutex_t mutex_;
  uroce_event_record* ahead_;
  uint32_t count_;
  uint32_t capacity_;
};

/// The kind of object that an event of `event_type` concerns. False: a port or a device.
bool KindOfEvent(uint32_t event_type, EventKind* kind);

}  // namespace uroce::shim
