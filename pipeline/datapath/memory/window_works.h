// SPDX-License-Identifier: Apache-2.0
// Works that bind a window or take its key back (docs/protocol/transport.md, sections 4.4 and 8).
#pragma once

#include <cstdint>

#include "pipeline/datapath/memory/key_table.h"
#include "pipeline/datapath/memory/memory_window.h"

namespace uroce::datapath {

/// What a BIND_MW work says.
struct BindRequest {
  uint64_t addr = 0;
  uint64_t length_bytes = 0;  ///< 0: a window of type 1 is to grant nothing.
  uint32_t window_key = 0;    ///< Which window; the variant does not matter.
  uint32_t new_key = 0;       ///< Its variant is what counts.
  uint32_t region_key = 0;
  uint32_t access = 0;  ///< IBV_ACCESS_REMOTE_* and ZERO_BASED.
};

/// Whose work it is.
struct WindowUser {
  uint32_t pd = 0;
  uint32_t qpn = 0;
};

struct WindowChange {
  bool done = false;        ///< False: the work fails.
  bool has_ended = false;   ///< A key grants nothing any more that did until now.
  uint32_t former_qpn = 0;  ///< The one queue pair that could use it; 0: any of the domain.
};

/// Any worker, like the other.
WindowChange BindWindow(const KeyTable& keys, const BindRequest& request, const WindowUser& user);
/// Local and remote invalidation: windows of type 2 alone. Regions are invalidated only where they
/// were registered by a work, which programs cannot do.
WindowChange InvalidateWindow(const KeyTable& keys, uint32_t key, uint32_t pd);
/// The window is unpublished, and its grace period over: its region is not bound any more.
void ReleaseBinding(const KeyTable& keys, const MemoryWindow& window);

}  // namespace uroce::datapath
