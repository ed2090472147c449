// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/record_socket.h"

#include <sys/socket.h>

#include <cerrno>

#include "pipeline/datapath/queue/wake_pace.h"

namespace uroce::datapath {
namespace {

bool Send(int fd, uint64_t element, uint32_t event_type) {
  const uroce_event_record record{element, event_type, 0};
  return send(fd, &record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(record) ||
         errno != EAGAIN;
}

}  // namespace

bool RecordSocket::Write(uint64_t element, uint32_t event_type) const {
  if (fd < 0) return true;
  if (pace == nullptr) return Send(fd, element, event_type);
  return pace->Run([&] { return Send(fd, element, event_type); });
}

}  // namespace uroce::datapath
