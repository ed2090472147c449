// SPDX-License-Identifier: Apache-2.0
// A host of the simulation: the rdma_cm service, and the programs on it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "nic/rdma_cm/client.h"
#include "tests/sim/cm/history.h"
#include "tests/sim/random.h"

namespace uroce::sim::rdma_cm {

using nic::rdma_cm::EndpointId;
using nic::rdma_cm::Result;

/// The address of a host; the first host has 10.0.0.1.
Gid AddressOf(uint32_t host);
/// The host with this address; for an address of no host, a number beyond all hosts.
uint32_t HostOf(const Gid& address);

/// An event that a program was given, and has not looked at yet.
struct Told {
  uint32_t program = 0;
  uint32_t life = 0;  ///< Of the program. Events of another life are void.
  nic::rdma_cm::Event event;
};

/// The service's environment. Its datagrams go to the simulation.
class Node final : public nic::rdma_cm::Environment {
 public:
  using Sender =
      std::function<void(const nic::cm::Route&, const std::array<uint8_t, wire::kMadBytes>&)>;

  struct Program {
    std::unique_ptr<nic::rdma_cm::Client> client;
    uint32_t life = 0;
    std::map<EndpointId, cm::End*> ends;
  };

  /// `now` is the simulation's time. Each of the `hosts` has one address.
  Node(uint32_t number, uint32_t hosts, uint32_t programs, const Nanos& now, Sender send);
  ~Node() override;

  /// Starts the host; `random` chooses its numbers.
  void Start(nic::cm::RandomSource random);
  /// Ends the host at once: no other host is told.
  void Die();
  /// Starts a program.
  void StartProgram(uint32_t program);
  /// Kills a program: its peers are told.
  void Kill(uint32_t program);
  /// Takes a datagram of `from`, or runs what is due by now.
  void OnMad(uint32_t from, std::span<const uint8_t> mad);
  void OnTime();
  Nanos NextDue() const;

  bool alive() const { return service_ != nullptr; }
  nic::rdma_cm::Service& service() { return *service_; }
  const nic::rdma_cm::Service& service() const { return *service_; }
  std::vector<Program>& programs() { return programs_; }
  std::deque<Told>& told() { return told_; }
  /// What is left when all programs have gone and the network is quiet; "" for nothing.
  std::string Remains() const;

 private:
  // ---- nic::rdma_cm::Environment ----
  Nanos Now() override { return now_; }
  void SetDeadline(Nanos when) override { deadline_ = when; }
  std::optional<nic::rdma_cm::Attachment> FindAddress(const Gid& address, uint32_t) override;
  Result ChooseSource(uint32_t, const Gid&, uint32_t, nic::rdma_cm::Attachment& source) override;
  LookupId FindNeighbour(const nic::rdma_cm::Attachment&, const Gid& destination, uint32_t user,
                         Nanos timeout, LookupHandler handler) override;
  void Cancel(LookupId lookup) override { lookups_.erase(lookup); }
  nic::rdma_cm::DeviceFacts Facts(uint32_t) override;
  std::optional<uint8_t> GidIndex(const nic::rdma_cm::Attachment&) override { return 1; }
  bool Send(const nic::cm::Route& route, const std::array<uint8_t, wire::kMadBytes>& mad) override;
  Result Join(const nic::rdma_cm::Attachment&, const Gid&) override { return Result::kOk; }
  void Leave(const nic::rdma_cm::Attachment&, const Gid&) override {}

  struct Lookup {
    Nanos due;
    int error = 0;
    LookupHandler handler;
  };

  const uint32_t number_;
  const uint32_t hosts_;
  const Nanos& now_;
  const Sender send_;
  std::unique_ptr<nic::rdma_cm::Service> service_;  ///< Null when the host is dead.
  std::vector<Program> programs_;
  std::deque<Told> told_;
  Nanos deadline_ = kNever;
  LookupId last_lookup_ = 0;
  std::map<LookupId, Lookup> lookups_;
  bool silent_ = false;  ///< While the host dies.
};

}  // namespace uroce::sim::rdma_cm
