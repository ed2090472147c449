// SPDX-License-Identifier: Apache-2.0
// Moves payload between a frame and that memory of a program which the worker itself can access.
#pragma once

#include <cstdint>

#include "pipeline/datapath/copy/copy_helper.h"
#include "pipeline/datapath/copy/running_icrc.h"
#include "pipeline/datapath/memory/access.h"
#include "pipeline/datapath/memory/key_table.h"

namespace uroce::datapath {

enum class MoveResult : uint8_t {
  kDone,
  kDenied,  ///< A key, a right or a range forbids it.
  kCopied,  ///< The next bytes lie where only the helper reaches: see TakeCopied.
};

/// Writes bytes of a frame into mapped memory, in the order of OrderedCopy: programs poll on the
/// last byte of a WRITE. A null segment drops its bytes. `bytes` advances with `walker`.
MoveResult Place(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes);
/// Reads mapped memory into a frame. Null segments read as zeros. At most one packet's payload.
MoveResult Gather(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes);
/// Does the same as Gather, and `icrc` takes the bytes in the same pass. After kCopied `icrc` is
/// meaningless.
MoveResult GatherWithIcrc(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes,
                          RunningIcrc& icrc);
/// After kCopied: adds the copied pieces that come next, as many as there is room for, to `job`.
/// `bytes` advances with `walker`.
void TakeCopied(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes, CopyJob& job);

/// Executes a fetch and add or a compare and swap on mapped memory, eight aligned bytes; returns
/// what was there.
uint64_t ExecuteAtomic(uint8_t* mapped, bool compare_swap, uint64_t swap_add, uint64_t compare);

}  // namespace uroce::datapath
