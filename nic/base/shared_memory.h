// SPDX-License-Identifier: Apache-2.0
// Memory shared with a program: files that only the daemon makes, sealed so that nobody can shrink
// them under a mapping.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"

namespace uroce {

/// Makes a sparse memfd of `length` bytes, sealed against any change of its size.
absl::StatusOr<Fd> MakeSharedFile(const char* name, uint64_t length);
/// Maps the first `length` bytes for reading and writing, or for reading alone. No page is touched.
absl::StatusOr<Mapping> MapShared(int fd, uint64_t length, bool writable = true);
/// Makes a memfd with these bytes, sealed against every change.
absl::StatusOr<Fd> MakeConstantFile(const char* name, const void* data, uint64_t length);

/// The status of a failed system call.
absl::Status SystemError(const char* what, int error);

}  // namespace uroce
