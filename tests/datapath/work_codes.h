// SPDX-License-Identifier: Apache-2.0
// Opcodes of works and statuses of completions, as <infiniband/verbs.h> numbers them.
#pragma once

#include <cstdint>

namespace uroce::datapath {

inline constexpr uint8_t kWrite = 0;
inline constexpr uint8_t kWriteWithImm = 1;
inline constexpr uint8_t kSend = 2;
inline constexpr uint8_t kSendWithImm = 3;
inline constexpr uint8_t kRead = 4;
inline constexpr uint8_t kCompareSwap = 5;
inline constexpr uint8_t kFetchAdd = 6;
inline constexpr uint8_t kLocalInvalidate = 7;
inline constexpr uint8_t kBind = 8;
inline constexpr uint8_t kSendWithInvalidate = 9;
inline constexpr uint8_t kAtomicWrite = 15;

inline constexpr uint8_t kSuccess = 0;
inline constexpr uint8_t kLocLenErr = 1;
inline constexpr uint8_t kLocQpOpErr = 2;
inline constexpr uint8_t kLocProtErr = 4;
inline constexpr uint8_t kWrFlushErr = 5;
inline constexpr uint8_t kMwBindErr = 6;
inline constexpr uint8_t kRemInvReqErr = 9;
inline constexpr uint8_t kRemAccessErr = 10;

}  // namespace uroce::datapath
