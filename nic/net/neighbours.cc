// SPDX-License-Identifier: Apache-2.0
#include "nic/net/neighbours.h"

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr Nanos kPoll{5'000'000};

// fe80:: with the EUI-64 of a MAC: the address says who has it.
std::optional<Mac> MacInside(const Gid& gid) {
  const auto& b = gid.bytes;
  if (!IsLinkLocal(gid) || b[11] != 0xff || b[12] != 0xfe) return std::nullopt;
  return Mac{static_cast<uint8_t>(b[8] ^ 0x02), b[9], b[10], b[13], b[14], b[15]};
}

}  // namespace

std::optional<absl::StatusOr<Mac>> Neighbours::Find(const Nic& nic, const NicDevice& device,
                                                    const Gid& destination) {
  if (const NicDevice* owner = nic.FindOwner(destination, device)) return owner->info().mac;
  if (device.config().wire >= 0) {
    return absl::DeadlineExceededError(
        absl::StrCat("nobody on the wire of ", device.name(), " has ", FormatAddress(destination)));
  }
  if (device.info().ifindex != 0) return std::nullopt;
  if (const std::optional<Mac> mac = MacInside(destination)) return *mac;
  return absl::UnavailableError(absl::StrCat(device.name(), " has no kernel interface to find ",
                                             FormatAddress(destination),
                                             " by; use link-local GIDs there"));
}

Neighbours::Id Neighbours::Resolve(const NicDevice& device, const Gid& destination,
                                   Callback callback) {
  const Id id = next_id_++;
  lookups_[id] = {device.info().ifindex,
                  destination,
                  {},
                  Nic::Now() + kPatience,
                  std::move(callback),
                  loop_.After(Nanos(0), [this, id] { Continue(id); })};
  return id;
}

void Neighbours::Cancel(Id id) {
  const auto it = lookups_.find(id);
  if (it == lookups_.end()) return;
  loop_.Cancel(it->second.timer);
  lookups_.erase(it);
}

void Neighbours::Continue(Id id) {
  Lookup& lookup = lookups_.at(id);
  const bool first = lookup.next_hop == Gid{};
  if (first) {
    const absl::StatusOr<Gid> next_hop = netlink_.NextHop(lookup.ifindex, lookup.destination);
    if (!next_hop.ok()) return Finish(id, next_hop.status());
    lookup.next_hop = *next_hop;
  }
  if (const auto mac = netlink_.Neighbour(lookup.ifindex, lookup.next_hop)) return Finish(id, *mac);
  if (Nic::Now() >= lookup.deadline) {
    return Finish(id, absl::DeadlineExceededError(absl::StrCat(FormatAddress(lookup.next_hop),
                                                               " does not answer on the network")));
  }
  if (first) netlink_.Probe(lookup.ifindex, lookup.next_hop);
  lookup.timer = loop_.After(kPoll, [this, id] { Continue(id); });
}

void Neighbours::Finish(Id id, const absl::StatusOr<Mac>& mac) {
  const Callback callback = std::move(lookups_.at(id).callback);
  lookups_.erase(id);
  callback(mac);
}

}  // namespace uroce::nic
