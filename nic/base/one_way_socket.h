// SPDX-License-Identifier: Apache-2.0
// A stream from the daemon to a program whose reader can delay nobody.
#pragma once

#include "absl/status/statusor.h"
#include "nic/base/fd.h"

namespace uroce {

/// Returns the daemon's end, for send(2) with MSG_DONTWAIT. `reader` is the program's end, which
/// cannot send; the program may set its flags. A pipe would not do: a read whose page fault never
/// ends, in memory served by the reader's own file system, keeps the pipe's lock, and every write
/// waits for it, non-blocking or not. A socket's sender takes no lock of its reader.
absl::StatusOr<Fd> MakeOneWaySocket(Fd& reader);

}  // namespace uroce
