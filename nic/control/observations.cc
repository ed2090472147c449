// SPDX-License-Identifier: Apache-2.0
#include "nic/control/observations.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/capture/capture.h"
#include "nic/control/control_context.h"
#include "nic/control/monitor.h"
#include "nic/dumps/dump.h"
#include "nic/dumps/dump_stream.h"
#include "nic/objects/nic.h"
#include "pipeline/shm/abi/uroce_events.h"

namespace uroce::nic {

Observations::Observations(ControlContext& context, const Client& client)
    : context_(context), client_(client) {}

Observations::~Observations() {
  if (capture_ != nullptr) --context_.captures;
}

absl::Status Observations::Dump(const uroce_dump& request, Fd& reader) {
  if (request.what == UROCE_DUMP_EVENTS) return context_.monitor.Watch(client_, reader);
  return Stream(MakeDump(request.what, context_.dumps, client_), reader);
}

absl::Status Observations::History(const uroce_flight& request, Fd& reader) {
  return Stream(MakeHistoryDump(Qpn(request.qpn), context_.dumps, client_), reader);
}

absl::Status Observations::Stream(absl::StatusOr<std::unique_ptr<DumpSource>> source, Fd& reader) {
  if (!source.ok()) return source.status();
  absl::StatusOr<std::unique_ptr<DumpStream>> stream = DumpStream::Start(
      context_.dumps, client_, *std::move(source), reader, [this] { dump_.reset(); });
  if (!stream.ok()) return stream.status();
  dump_ = *std::move(stream);
  return absl::OkStatus();
}

absl::Status Observations::StartCapture(const uroce_capture& request, Reply& reply) {
  if (!client_.is_privileged()) {
    return absl::PermissionDeniedError(
        "a capture sees all programs: only root and the daemon's "
        "user may take one");
  }
  if (capture_ != nullptr) return absl::InvalidArgumentError("a capture is under way here");
  const uint32_t limit = context_.nic.config().limits.captures;
  if (context_.captures >= limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("capture: all ", limit, " are under way, see --max-captures"));
  }
  absl::StatusOr<std::unique_ptr<Capture>> capture = Capture::Start(context_.nic, request, reply);
  if (!capture.ok()) return capture.status();
  capture_ = *std::move(capture);
  ++context_.captures;
  return absl::OkStatus();
}

}  // namespace uroce::nic
