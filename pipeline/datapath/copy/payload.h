// SPDX-License-Identifier: Apache-2.0
// Moves payload between a frame and the program's memory, as far as the worker may reach itself.
#pragma once

#include <cstdint>

#include "pipeline/datapath/copy/copy_helper.h"
#include "pipeline/datapath/memory/access.h"
#include "pipeline/datapath/memory/key_table.h"

namespace uroce::datapath {

enum class MoveResult : uint8_t {
  kDone,
  kDenied,  ///< A key, a right or a range forbids it.
  kCopied,  ///< The next bytes lie where only the helper reaches: see TakeCopied.
};

/// Writes bytes of a frame into mapped memory, in the order of OrderedCopy: programs poll on the
/// last byte of a WRITE. Null segments drop them. `bytes` advances with `walker`.
MoveResult Place(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes);
/// Reads mapped memory into a frame; null segments are zeros. At most the payload of a packet.
MoveResult Gather(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes);
/// The same in one pass with the CRC. After kCopied `crc` is meaningless.
MoveResult GatherWithCrc(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes, uint32_t& crc);
/// After kCopied: adds the copied pieces that come next, as many as there is room for, to `job`.
/// `bytes` advances with `walker`.
void TakeCopied(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes, CopyJob& job);

/// Executes a fetch and add or a compare and swap on mapped memory, eight aligned bytes; returns
/// what was there.
uint64_t ExecuteAtomic(uint8_t* mapped, bool compare_swap, uint64_t swap_add, uint64_t compare);

}  // namespace uroce::datapath
