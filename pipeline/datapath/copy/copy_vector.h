// SPDX-License-Identifier: Apache-2.0
// Turns pieces of a copy job into the vectors that preadv and pwritev take.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>

#include "pipeline/datapath/copy/copy_helper.h"

namespace uroce::datapath {

/// Contiguous bytes of the program, for one system call.
struct CopyVector {
  std::array<iovec, CopyJob::kMaxPieces + 1> entries;
  int count = 0;
};

/// Gathers the pieces from `first` on that are contiguous in the program's memory.
/// The last eight bytes of a kWrite (an aligned piece, or as much of it as the
/// message has) get an entry of their own, because programs poll on them. The kernel
/// treats the entries as follows:
/// - It copies one entry after the other, and each entry page by page, in rising
///   addresses. All bytes of an entry are visible before those of the next one.
/// - Within a page it copies by one string instruction (processors with FSRM) or by
///   quadwords, upwards or downwards, depending on the addresses. So there is no
///   order within a page: the last line has been seen before the line in front of
///   it.
/// - An entry of eight aligned bytes is one quadword without FSRM. With FSRM no
///   manual says so, but no such entry has been seen in parts.
CopyVector GatherPieces(const CopyJob& job, uint32_t first);

}  // namespace uroce::datapath
