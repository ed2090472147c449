// SPDX-License-Identifier: Apache-2.0
// Works that bind a window or take its key back (docs/protocol/transport.md, sections 4.4 and 8).
#pragma once

#include <cstdint>

#include "pipeline/datapath/memory/key_table.h"
#include "pipeline/datapath/memory/memory_window.h"

namespace uroce::datapath {

/// The fields of a BIND_MW work.
struct BindRequest {
  uint64_t addr = 0;
  uint64_t length_bytes = 0;  ///< 0: a window of type 1 is unbound.
  uint32_t window_key = 0;    ///< Names the window; its variant is ignored.
  uint32_t new_key = 0;       ///< Only its variant is used.
  uint32_t region_key = 0;
  uint32_t access = 0;  ///< IBV_ACCESS_REMOTE_* and ZERO_BASED.
};

/// The queue pair whose work it is, and its domain.
struct WindowUser {
  uint32_t pd = 0;
  uint32_t qpn = 0;
};

struct WindowChange {
  bool done = false;        ///< False: the work fails.
  bool has_ended = false;   ///< A key that granted access until now grants none any more.
  uint32_t former_qpn = 0;  ///< The one queue pair that could use that key; 0: any of the domain.
};

/// Executes a BIND_MW work. Any worker, as for InvalidateWindow.
WindowChange BindWindow(const KeyTable& keys, const BindRequest& request, const WindowUser& user);
/// Executes a local or remote invalidation, for windows of type 2 alone. A region could be
/// invalidated only if a work had registered it, which programs cannot do.
WindowChange InvalidateWindow(const KeyTable& keys, uint32_t key, uint32_t pd);
/// Ends the binding of a window that is unpublished and whose grace period is over.
void ReleaseBinding(const KeyTable& keys, const MemoryWindow& window);

}  // namespace uroce::datapath
