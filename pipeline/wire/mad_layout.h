// SPDX-License-Identifier: Apache-2.0
// The common header of all management datagrams on the wire. Only codecs use it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/wire/be.h"
#include "pipeline/wire/gsi.h"
#include "pipeline/wire/layout.h"

namespace uroce::wire {

/// MAD header. IBTA vol. 1, chapter 13.
struct MadHeaderLayout {
  uint8_t base_version;
  uint8_t management_class;
  uint8_t class_version;
  uint8_t method;  // 7 response
  Be<2> status;
  Be<2> class_specific;
  Be<8> transaction_id;
  Be<2> attribute_id;
  Be<2> reserved;
  Be<4> attribute_modifier;
};
static_assert(kIsWireLayout<MadHeaderLayout, 24>);

inline constexpr uint8_t kMadBaseVersion = 1;
inline constexpr size_t kMadDataBytes = kMadBytes - sizeof(MadHeaderLayout);

}  // namespace uroce::wire
