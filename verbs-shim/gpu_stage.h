// SPDX-License-Identifier: Apache-2.0
// The program's end of its stage: a thread that moves bytes of device memory for the daemon
// (pipeline/shm/abi/uroce_stage.h).
#pragma once

#include <stdint.h>

namespace uroce::shim {
class DaemonConnection;
}

namespace uroce::gpu {

/// Has the daemon make the stage of `connection`, and starts the thread that serves it. Called once
/// for a connection; `address` is memory of a device (FindMemory) or of a DMA-buf (dma_buf.h).
/// Calls no function of the driver, so the caller may hold locks. Returns 0 or an errno.
///
/// The thread lasts until the process or the connection ends. A fork child has neither the thread
/// nor the memory. The thread takes no signal but SIGSEGV and holds no lock while it copies. If the
/// driver hangs, the daemon waits for this program alone, and so does ibv_dereg_mr. When the driver
/// has ended, since the process exits, the thread serves nothing more: peers see a silent program,
/// not one that refuses their requests.
int OpenStage(shim::DaemonConnection& connection, uint64_t address);

}  // namespace uroce::gpu
