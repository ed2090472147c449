// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/copy/copy_vector.h"

#include <algorithm>

namespace uroce::datapath {
namespace {

void Add(CopyVector& vector, uint8_t* bytes, uint64_t length_bytes) {
  if (length_bytes != 0) vector.entries[vector.count++] = {bytes, length_bytes};
}

/// How many bytes of `piece` lie in the aligned eight bytes in which it ends.
uint64_t EndBytes(const CopyPiece& piece) {
  const uint64_t past_eight = (piece.app_addr + piece.length_bytes - 1) % 8 + 1;
  return std::min<uint64_t>(past_eight, piece.length_bytes);
}

}  // namespace

CopyVector GatherPieces(const CopyJob& job, uint32_t first) {
  CopyVector vector;
  uint64_t next = job.pieces[first].app_addr;
  for (uint32_t i = first; i < job.piece_count && job.pieces[i].app_addr == next; ++i) {
    const CopyPiece& piece = job.pieces[i];
    const bool ends_write = job.kind == CopyJob::Kind::kWrite && i + 1 == job.piece_count;
    const uint64_t end_bytes = ends_write ? EndBytes(piece) : 0;
    Add(vector, piece.bytes, piece.length_bytes - end_bytes);
    Add(vector, piece.bytes + piece.length_bytes - end_bytes, end_bytes);
    next += piece.length_bytes;
  }
  return vector;
}

}  // namespace uroce::datapath
