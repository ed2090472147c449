// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/paths.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

// The route's hop limit replaces the program's, as in the kernel (docs/protocol/verbs-semantics.md,
// section 4); 64 is the default of routes. Groups use the program's value.
constexpr uint8_t kHopLimit = 64;

uint8_t HopLimit(const Gid& destination, const uroce_ah_attr& attr) {
  return IsMulticast(destination) ? std::max<uint8_t>(attr.hop_limit, 1) : kHopLimit;
}

constexpr uint32_t kFlowLabelMask = 0xfffff;

}  // namespace

absl::StatusOr<PathKey> PathKeyOf(absl::string_view what, const NicDevice& device,
                                  const uroce_ah_attr& attr) {
  const std::optional<GidEntry> source = device.gids().At(attr.sgid_index);
  if (!source) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": sgid_index ", attr.sgid_index, " of ", device.name(), " is empty"));
  }
  Gid destination;
  std::copy(std::begin(attr.dgid), std::end(attr.dgid), destination.bytes.begin());
  if (destination == Gid{}) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": dgid ", FormatAddress(destination), " is no address"));
  }
  if (source->gid.is_ipv4() != destination.is_ipv4()) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": sgid ", FormatAddress(source->gid),
                                                   " and dgid ", FormatAddress(destination),
                                                   " are of different families"));
  }
  return PathKey{&device, source->vlan_id, source->gid, destination};
}

datapath::Path MakePath(const PathKey& key, const Mac& destination, const uroce_ah_attr& attr) {
  datapath::Path path;
  path.source_mac = key.device->mac();
  path.destination_mac = destination;
  path.source = key.source;
  path.destination = key.destination;
  if (key.vlan_id != 0) path.vlan_tci = VlanTci(key.vlan_id, attr.sl);
  path.traffic_class = attr.traffic_class;
  path.hop_limit = HopLimit(key.destination, attr);
  path.flow_label = attr.flow_label & kFlowLabelMask;
  return path;
}

}  // namespace uroce::nic
