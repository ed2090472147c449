// SPDX-License-Identifier: Apache-2.0
// Invariants of the MAD codec that hold for any bytes.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "pipeline/wire/cm/codec.h"
#include "pipeline/wire/cm/rdma_cm_header.h"
#include "pipeline/wire/cm/to_string.h"

namespace uroce::wire {

/// Decodes `mad`, reads all results, encodes the MAD again and decodes that: both must be equal.
inline bool CmHolds(std::span<const uint8_t> mad) {
  CmMessage message;
  if (DecodeCm(mad, message) != CmDecodeResult::kOk) return true;
  if (ToString(message).empty()) return false;
  if (const auto* const req = std::get_if<CmReq>(&message.body)) {
    RdmaCmHeader header;
    static_cast<void>(DecodeRdmaCmHeader(req->private_data, header));
    static_cast<void>(ServiceOf(req->service_id));
  }
  CmMessage again;
  return DecodeCm(EncodeCm(message), again) == CmDecodeResult::kOk && again == message;
}

}  // namespace uroce::wire
