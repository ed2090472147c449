// SPDX-License-Identifier: Apache-2.0
// The observations of one client: a dump and a capture.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/fd.h"
#include "nic/base/message.h"
#include "nic/objects/client.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

class Capture;
class DumpSource;
class DumpStream;
struct ControlContext;

/// Both end when the object does. Control thread.
class Observations {
 public:
  Observations(ControlContext& context, const Client& client);
  ~Observations();
  Observations(const Observations&) = delete;
  Observations& operator=(const Observations&) = delete;

  /// Lends a socket from which the dump is read. Ends a dump that is running. Events
  /// (pipeline/shm/abi/uroce_events.h) have no end.
  absl::Status Dump(const uroce_dump& request, Fd& reader);
  /// Like Dump, for the newest packets of a queue pair.
  absl::Status History(const uroce_flight& request, Fd& reader);
  /// Errors: PermissionDenied, InvalidArgument (one is running), ResourceExhausted.
  absl::Status StartCapture(const uroce_capture& request, Reply& reply);

 private:
  absl::Status Stream(absl::StatusOr<std::unique_ptr<DumpSource>> source, Fd& reader);

  ControlContext& context_;
  const Client& client_;
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<DumpStream> dump_;
};

}  // namespace uroce::nic
