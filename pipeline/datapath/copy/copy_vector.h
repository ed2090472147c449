// SPDX-License-Identifier: Apache-2.0
// Pieces of a copy job as preadv and pwritev take them.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>

#include "pipeline/datapath/copy/copy_helper.h"

namespace uroce::datapath {

/// Contiguous bytes of the program, one system call's.
struct CopyVector {
  std::array<iovec, CopyJob::kMaxPieces + 1> entries;
  int count = 0;
};

/// The pieces from `first` on that follow each other in the program. The last eight bytes that a
/// kWrite writes, those of an aligned piece or what the message has of it, are an entry of their
/// own, because programs poll on them and because of what the kernel does with an entry of a
/// process's memory:
/// - It takes one after the other, and each in pages, in rising addresses. All bytes of an entry
///   are visible before those of the next one.
/// - Within a page it copies by one string instruction (processors with FSRM) or by quadwords,
///   upwards or downwards as the addresses happen to be. There is no order within a page, then:
///   a last line has been seen before the line in front of it.
/// - An entry of eight aligned bytes is one quadword without FSRM. With FSRM no manual says so;
/// none
///   has been seen in parts.
CopyVector GatherPieces(const CopyJob& job, uint32_t first);

}  // namespace uroce::datapath
