// SPDX-License-Identifier: Apache-2.0
// The general service interface (GSI): queue pair 1, whose datagrams carry management datagrams
// (MADs) over RoCEv2 (docs/protocol/cm.md, section 1); and the MAD by which two uroce NICs tell
// each other their extensions of the standard (selective-repeat.md).
#include "pipeline/wire/gsi.h"

#include <cstdio>
#include <cstring>

namespace uroce::wire {
namespace {

constexpr uint8_t kClassVersion = 1;
constexpr uint16_t kCapabilitiesAttribute = 0x0010;
constexpr uint32_t kOui = 0x726f63;  // "roc": locally administered, so assigned to no vendor.
constexpr uint16_t kVersion = 1;
constexpr uint8_t kRmppActive = 0x01;

/// MADs of vendor classes with an OUI. IBTA vol. 1, 16.5.2.
struct VendorLayout {
  uint8_t rmpp_version;
  uint8_t rmpp_type;
  uint8_t rmpp_flags;  // 7:3 response time, 0 active
  uint8_t rmpp_status;
  Be<4> rmpp_segment;
  Be<4> rmpp_length;
  uint8_t reserved;
  Be<3> oui;
  // Attribute Capabilities.
  Be<2> version;
  Be<2> reserved_too;
  Be<4> features;
  Be<8> instance;
  std::array<uint8_t, 200> unused;
};
static_assert(kIsWireLayout<VendorLayout, kMadDataBytes>);

CapabilitiesResult CheckHeader(const MadHeaderLayout& header) {
  if (header.base_version != kMadBaseVersion) return CapabilitiesResult::kBadBaseVersion;
  if (header.management_class != kCapabilitiesClass) return CapabilitiesResult::kBadClass;
  if (header.class_version != kClassVersion) return CapabilitiesResult::kBadClassVersion;
  const auto method = static_cast<MadMethod>(header.method);
  const bool asks = method == MadMethod::kGet && header.status.value() == 0;
  if (!asks && method != MadMethod::kGetResponse) return CapabilitiesResult::kBadMethod;
  const bool is_ours = header.attribute_id.value() == kCapabilitiesAttribute;
  return is_ours ? CapabilitiesResult::kOk : CapabilitiesResult::kBadAttribute;
}

CapabilitiesResult CheckVendor(const VendorLayout& vendor) {
  if (vendor.oui.value() != kOui) return CapabilitiesResult::kBadOui;
  if ((vendor.rmpp_flags & kRmppActive) != 0) return CapabilitiesResult::kSegmented;
  return vendor.version.value() == 0 ? CapabilitiesResult::kBadVersion : CapabilitiesResult::kOk;
}

}  // namespace

CapabilitiesResult DecodeCapabilities(std::span<const uint8_t> bytes, CapabilitiesMad& mad) {
  if (bytes.size() != kMadBytes) return CapabilitiesResult::kBadLength;
  MadHeaderLayout header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const CapabilitiesResult checked = CheckHeader(header);
  if (checked != CapabilitiesResult::kOk) return checked;
  mad = {.method = static_cast<MadMethod>(header.method),
         .status = header.status.value(),
         .transaction_id = header.transaction_id.value(),
         .capabilities = {}};
  if (mad.status != 0) return CapabilitiesResult::kOk;
  VendorLayout vendor;
  std::memcpy(&vendor, bytes.data() + sizeof header, sizeof vendor);
  mad.capabilities = {.features = vendor.features.value(), .instance = vendor.instance.value()};
  return CheckVendor(vendor);
}

std::array<uint8_t, kMadBytes> EncodeCapabilities(const CapabilitiesMad& mad) {
  const MadHeaderLayout header = {.base_version = kMadBaseVersion,
                                  .management_class = kCapabilitiesClass,
                                  .class_version = kClassVersion,
                                  .method = static_cast<uint8_t>(mad.method),
                                  .status = Be<2>(mad.status),
                                  .class_specific = Be<2>(0),
                                  .transaction_id = Be<8>(mad.transaction_id),
                                  .attribute_id = Be<2>(kCapabilitiesAttribute),
                                  .reserved = Be<2>(0),
                                  .attribute_modifier = Be<4>(0)};
  VendorLayout vendor{};
  vendor.oui = Be<3>(kOui);
  vendor.version = Be<2>(kVersion);
  vendor.features = Be<4>(mad.capabilities.features);
  vendor.instance = Be<8>(mad.capabilities.instance);
  std::array<uint8_t, kMadBytes> bytes;
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &vendor, sizeof vendor);
  return bytes;
}

std::string ToString(const CapabilitiesMad& mad) {
  char text[128];
  const char* const method = mad.method == MadMethod::kGet ? "Get" : "GetResp";
  const auto tid = static_cast<unsigned long long>(mad.transaction_id);
  if (mad.status != 0) {
    std::snprintf(text, sizeof text, "%s Capabilities tid=%016llx status=%04x", method, tid,
                  mad.status);
    return text;
  }
  std::snprintf(text, sizeof text, "%s Capabilities tid=%016llx features=%08x instance=%016llx",
                method, tid, mad.capabilities.features,
                static_cast<unsigned long long>(mad.capabilities.instance));
  return text;
}

}  // namespace uroce::wire
