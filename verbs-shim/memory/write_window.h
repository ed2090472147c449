// SPDX-License-Identifier: Apache-2.0
// Makes writes of threads to a range of memory wait without userfaultfd: the range is read-only for
// a while, and a handler of SIGSEGV lets whoever writes there wait and write again.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// Puts the handler in front of the program's action (segv_action.h), or makes sure that it is
/// there. False: there is no way to. The caller holds the lock of the registrations.
[[nodiscard]] bool PrepareWriteWindows();

/// Opens the only window of the process: from here on no thread writes to `pages`, whose protection
/// is `protection` (PROT_*, with write access). System calls that write there get EFAULT. Reading
/// goes on. Returns 0, or a negative errno: then nothing has changed. Makes raw system calls only.
[[nodiscard]] int64_t OpenWriteWindow(AddressRange pages, int protection);

/// Closes the window: who waits writes again, to what lies there. With `is_replaced` this is
/// another mapping; otherwise the pages get their protection back.
void CloseWriteWindow(bool is_replaced);

}  // namespace uroce::memory
