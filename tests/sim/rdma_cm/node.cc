// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/rdma_cm/node.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace uroce::sim::rdma_cm {
namespace {

using nic::rdma_cm::Attachment;

constexpr Nanos kNeighbourTime{20'000};
constexpr uint64_t kGuids = 0xca00;

}  // namespace

Gid AddressOf(uint32_t host) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, static_cast<uint8_t>(host + 1)}};
}

uint32_t HostOf(const Gid& address) { return address.bytes[15] - 1u; }

Node::Node(uint32_t number, uint32_t hosts, uint32_t programs, const Nanos& now, Sender send)
    : number_(number), hosts_(hosts), now_(now), send_(std::move(send)), programs_(programs) {}

Node::~Node() { Die(); }

void Node::Start(nic::cm::RandomSource random) {
  service_ = std::make_unique<nic::rdma_cm::Service>(nic::rdma_cm::ServiceConfig{}, *this,
                                                     std::move(random));
  for (uint32_t program = 0; program < programs_.size(); ++program) StartProgram(program);
}

void Node::Die() {
  silent_ = true;
  for (uint32_t program = 0; program < programs_.size(); ++program) Kill(program);
  service_.reset();
  lookups_.clear();
  deadline_ = kNever;
  silent_ = false;
}

void Node::StartProgram(uint32_t number) {
  Program& program = programs_[number];
  program.client = std::make_unique<nic::rdma_cm::Client>(
      *service_, nic::rdma_cm::Owner{.client = number}, [](Qpn) { return true; },
      [this, number, life = program.life](const nic::rdma_cm::Event& event) {
        told_.push_back({number, life, event});
      });
}

void Node::Kill(uint32_t number) {
  Program& program = programs_[number];
  ++program.life;
  for (const auto& [id, end] : program.ends) end->Destroy();
  program.ends.clear();
  program.client.reset();
}

void Node::OnMad(uint32_t from, std::span<const uint8_t> mad) {
  service_->OnMad({.local = AddressOf(number_), .remote = AddressOf(from)}, mad);
}

void Node::OnTime() {
  for (;;) {
    const auto due = std::ranges::find_if(
        lookups_, [this](const auto& entry) { return entry.second.due <= now_; });
    if (due == lookups_.end()) break;
    const Lookup lookup = std::move(due->second);
    lookups_.erase(due);
    lookup.handler(lookup.error);
  }
  if (deadline_ > now_) return;
  deadline_ = kNever;
  service_->OnDeadline();
}

Nanos Node::NextDue() const {
  Nanos next = deadline_;
  for (const auto& [id, lookup] : lookups_) next = std::min(next, lookup.due);
  return next;
}

std::string Node::Remains() const {
  size_t endpoints = 0;
  service_->ForEach([&](const auto&, EndpointId, const auto&) { ++endpoints; });
  std::string text;
  const auto add = [&text](size_t count, const char* what) {
    if (count != 0) text.append(" ").append(std::to_string(count)).append(what);
  };
  add(endpoints, " endpoints");
  add(service_->communications(), " communications");
  add(service_->bindings(), " bindings");
  add(lookups_.size(), " lookups");
  return text;
}

std::optional<Attachment> Node::FindAddress(const Gid& address, uint32_t) {
  if (address != AddressOf(number_)) return std::nullopt;
  return Attachment{0, 0, address};
}

Result Node::ChooseSource(uint32_t, const Gid&, uint32_t, Attachment& source) {
  source = {0, 0, AddressOf(number_)};
  return Result::kOk;
}

// The MAC of a dead host is still in the neighbour tables of all others.
Node::LookupId Node::FindNeighbour(const Attachment&, const Gid& destination, uint32_t,
                                   Nanos timeout, LookupHandler handler) {
  const bool answers = HostOf(destination) < hosts_;
  lookups_[++last_lookup_] = {now_ + (answers ? kNeighbourTime : timeout), answers ? 0 : ETIMEDOUT,
                              std::move(handler)};
  return last_lookup_;
}

nic::rdma_cm::DeviceFacts Node::Facts(uint32_t) {
  return {.node_guid = kGuids + number_, .active_mtu = 5};
}

bool Node::Send(const nic::cm::Route& route, const std::array<uint8_t, wire::kMadBytes>& mad) {
  if (!silent_) send_(route, mad);
  return true;
}

}  // namespace uroce::sim::rdma_cm
