// SPDX-License-Identifier: Apache-2.0
// DMA-bufs whose bytes the CPU can access, such as buffers of a display: mapped into the program
// for a region, and copied by the thread that serves the stage (gpu_stage.h). The daemon maps none:
// an access may wait for the driver that has made the DMA-buf.
#pragma once

#include <stdint.h>

namespace uroce::gpu {

/// A mapping of a DMA-buf, and a file of it.
struct DmaBuf {
  uint64_t start;
  uint64_t length_bytes;
  int fd;
  uint64_t inode;
  DmaBuf* next;
};

bool IsDmaBuf(int fd);
/// Maps bytes [0, offset + length_bytes) of the DMA-buf `fd`; the caller keeps `fd`.
/// `*address` becomes where `offset` lies. Returns null with errno on failure: EINVAL (bytes behind
/// its end), EACCES (it may not be written), EOPNOTSUPP (its driver lets no CPU access it), ENOMEM,
/// EMFILE.
DmaBuf* MapDmaBuf(int fd, uint64_t offset, uint64_t length_bytes, bool writes, uint64_t* address);
/// The caller has ended the region: no copy is under way.
void UnmapDmaBuf(DmaBuf* buffer);

/// The mapping of MapDmaBuf that holds `address`, or null. It stays while a region needs it. Any
/// thread.
const DmaBuf* FindDmaBuf(uint64_t address);
/// Copies between `host` and `address` of `buffer`, between the calls by which its driver makes the
/// bytes coherent. No byte of a later copy becomes visible before these. False: not all of it is
/// mapped. The thread that serves the stage.
bool CopyDmaBuf(const DmaBuf& buffer, bool to_device, uint64_t address, uint8_t* host,
                uint64_t length_bytes);

}  // namespace uroce::gpu
