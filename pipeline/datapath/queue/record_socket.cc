// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/record_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <ctime>

#include "pipeline/datapath/queue/record_pace.h"

namespace uroce::datapath {
namespace {

Nanos TimeOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

bool Send(int fd, uint64_t element, uint32_t event_type) {
  const uroce_event_record record{element, event_type, 0};
  return send(fd, &record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(record) ||
         errno != EAGAIN;
}

}  // namespace

bool RecordSocket::Write(uint64_t element, uint32_t event_type) const {
  if (fd < 0) return true;
  if (pace == nullptr) return Send(fd, element, event_type);
  const Nanos begin = TimeOf(CLOCK_MONOTONIC);
  if (!pace->MayWrite(begin)) return false;
  const bool is_suspected = pace->is_suspected();
  const Nanos own_begin = is_suspected ? TimeOf(CLOCK_THREAD_CPUTIME_ID) : begin;
  const bool is_done = Send(fd, element, event_type);
  const Nanos end = TimeOf(CLOCK_MONOTONIC);
  const Nanos cost = is_suspected ? TimeOf(CLOCK_THREAD_CPUTIME_ID) - own_begin : end - begin;
  pace->Account(end, cost, is_suspected);
  return is_done;
}

}  // namespace uroce::datapath
