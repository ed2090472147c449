// SPDX-License-Identifier: Apache-2.0
// The connection manager of a daemon: all communications of all programs on all devices. Pure: MADs
// and calls come in with the time, datagrams and events go out as values.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "nic/cm/bindings.h"
#include "nic/cm/connection.h"
#include "nic/cm/deadlines.h"
#include "nic/cm/outbox.h"
#include "nic/cm/service_resolution.h"
#include "nic/cm/source_limit.h"
#include "nic/cm/types.h"

namespace uroce::nic::cm {

/// 32 bits that a stranger cannot guess.
using RandomSource = std::function<uint32_t()>;

struct Config {
  /// Communications of all kinds, those in time wait too.
  size_t max_ids = 65536;
  uint32_t requests_per_second = 25'000;  ///< Of one source.
  uint32_t request_burst = 10'000;
  Bindings::PortRange ports;
};

/// One thread, the control thread, calls it:
///   - what serves programs makes ids (Bind, Listen, Connect, Resolve ...), and destroys them all
///     when their program dies;
///   - what has received a GSI datagram hands its MAD to OnMad;
///   - the event loop calls OnDeadline at NextDeadline;
///   - after each of these the datagrams and events are taken until there are none.
/// An id is the communication's number on the wire; it lives from the call or request that makes it
/// until Destroy, and is not given out again before its connection's time wait is over.
class Manager {
 public:
  /// Answers about services of datagrams that are kept for peers that ask again; older ones are
  /// forgotten: their programs are asked again.
  static constexpr size_t kMostAnswers = 4096;
  /// Deadlines that one call works off; there may be more at once.
  static constexpr int kDeadlinesAtOnce = 256;

  Manager(const Config& config, RandomSource random);

  // ---- addresses and listeners ----
  Result Bind(const BindParameters& parameters, BindingId& id);
  Result Listen(BindingId id, uint32_t backlog);
  /// Requests that the program has got before live on.
  void Release(BindingId id) { bindings_.Release(id); }
  uint16_t PortOf(BindingId id) const { return bindings_.PortOf(id); }
  std::optional<Gid> AddressOfListener(const wire::RdmaCmService& service, bool is_ipv4) const {
    return bindings_.AddressOfListener(service, is_ipv4);
  }

  // ---- connections ----
  Result Connect(const ConnectParameters& parameters, Nanos now, CommId& id);
  /// `holder` lives until nothing is left of the communication: after the program has destroyed it,
  /// and its time wait is over. Of an id that there is not it lives no longer.
  void Keep(CommId id, std::shared_ptr<void> holder);
  /// The program has got the event of a request: another may take its place in the backlog.
  Result OnRequestTaken(CommId id);
  Result Accept(CommId id, const AcceptParameters& parameters, Nanos now);
  /// Refuses a request or a reply. `info`: what the reason goes on to say (ARI), up to 72 bytes.
  Result Reject(CommId id, wire::RejReason reason, std::span<const uint8_t> private_data,
                std::span<const uint8_t> info = {});
  Result Establish(CommId id);
  Result OnFirstPacket(CommId id);
  Result Disconnect(CommId id, Nanos now);

  // ---- services of datagrams ----
  Result Resolve(const ResolveParameters& parameters, Nanos now, CommId& id);
  Result Answer(CommId id, const ResolveAnswer& answer, Nanos now);

  /// The program's id goes, in whatever state; what must still be said to the peer is said.
  Result Destroy(CommId id, Nanos now);
  /// A device is gone, with all that is on it.
  void OnDeviceGone(uint32_t device);

  // ---- from outside ----
  /// A GSI datagram's MAD. `route`: who sent it (remote) to which of our addresses (local), with
  /// the traffic class and hop limit for an answer.
  void OnMad(const Route& route, std::span<const uint8_t> mad, Nanos now);
  void OnDeadline(Nanos now);
  Nanos NextDeadline() const { return deadlines_.Next(); }

  // ---- outputs ----
  std::optional<Datagram> PollDatagram();
  std::optional<Event> PollEvent();

  // ---- queries ----
  const Counters& counters() const { return outbox_.counters; }
  const Connection* FindConnection(CommId id) const;
  /// Those in time wait too.
  size_t size() const { return connections_.size() + resolutions_.size(); }
  size_t bindings() const { return bindings_.size(); }
  /// Calls `visit(const Connection&)` for each, in no order.
  template <typename Visit>
  void ForEachConnection(Visit visit) const {
    for (const auto& [id, entry] : connections_) visit(entry.object);
  }

 private:
  /// An end of a communication elsewhere: the device by which it is reached, its address, its CA
  /// GUID, and the number of a communication or a queue pair. GUIDs alone are anybody's to claim.
  using Remote = std::tuple<uint32_t, std::array<uint8_t, 16>, uint64_t, uint32_t>;
  template <typename Object>
  struct Entry {
    Entry(CommId id, Outbox& outbox) : object(id, outbox) {}
    Object object;
    Nanos deadline = kNever;  ///< As `deadlines_` has it.
    BindingId place{};        ///< In whose backlog it has a place.
    std::shared_ptr<void> holder;
  };
  using ConnectionEntry = Entry<Connection>;
  using ResolutionEntry = Entry<ServiceResolution>;
  /// Entries stay where they are.
  template <typename Object>
  using Table = std::unordered_map<uint32_t, Entry<Object>>;

  // By message.
  void OnMessage(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnReq(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnRep(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnRej(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnDreq(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnSidrReq(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnSidrRep(const Route& route, const wire::CmMessage& message);
  template <typename Body>
  void OnOther(const Route& route, const wire::CmMessage& message, Nanos now);

  // Who is meant.
  static Remote RemoteAt(const Route& route, uint64_t guid, uint32_t number) {
    return {route.device, route.remote.bytes, guid, number};
  }
  ConnectionEntry* Find(CommId id);
  ResolutionEntry* FindResolution(CommId id);
  ConnectionEntry* FindBy(const absl::flat_hash_map<Remote, CommId>& index, const Remote& remote);
  /// The connection of a pair of numbers, if the message comes from its peer. Counts what does not.
  ConnectionEntry* FindPair(const Route& route, CommId ours, CommId theirs);
  ConnectionEntry* FindRejected(const Route& route, const wire::CmRej& rej);

  // Whether a request may begin a communication.
  enum class Refusal : uint8_t {
    kNone,
    kDropped,     ///< The listener takes no more; the peer will ask again.
    kNoListener,  ///< Of its service.
    kNotForUs,    ///< None at its address, or its addresses contradict the packet's.
  };
  /// Who listens; takes a place in that one's backlog on kNone, and counts all else.
  Refusal FindService(const Route& route, uint64_t service_id,
                      std::span<const uint8_t> private_data, wire::RdmaCmHeader& header,
                      BindingId& listener);
  /// Whether there may be one more, and now, of this source. Counts it if not.
  bool HasRoom(const Gid& source, Nanos now);
  /// Whether a REQ's queue pair is in a connection. Refuses it then, and has the old connection
  /// make sure of its peer.
  bool IsStale(const Route& route, const wire::CmMessage& message, Nanos now);
  void RefuseReq(const Route& route, const wire::CmMessage& message, wire::RejReason reason);
  void RefuseRep(const Route& route, const wire::CmMessage& message, wire::RejReason reason);

  void ForgetOldAnswers();
  CommId NewId();
  /// Brings indices and deadlines up to what has become of an entry; frees it when it is finished.
  Result Settle(ConnectionEntry& entry, Result result = Result::kOk);
  Result Settle(ResolutionEntry& entry, Result result = Result::kOk);
  void EnterIndices(Connection& connection);
  void LeaveIndices(const Connection& connection);
  template <typename Object>
  void ReturnPlace(Entry<Object>& entry);

  Config config_;
  RandomSource random_;
  SourceLimit limit_;
  Outbox outbox_;
  Bindings bindings_;
  Deadlines deadlines_;
  Table<Connection> connections_;
  Table<ServiceResolution> resolutions_;
  absl::flat_hash_map<Remote, CommId> by_remote_id_;   ///< Connections that know their peer ...
  absl::flat_hash_map<Remote, CommId> by_remote_qpn_;  ///< ... until they are over.
  std::deque<CommId> answers_;                         ///< In order; some may be forgotten already.
  /// Requests that have come, by who asks: CA GUIDs are not in them.
  absl::flat_hash_map<std::pair<std::array<uint8_t, 16>, uint32_t>, CommId> by_request_;
};

}  // namespace uroce::nic::cm
