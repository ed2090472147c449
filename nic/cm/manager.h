// SPDX-License-Identifier: Apache-2.0
// The connection manager: all connections and service resolutions of a daemon, found by their ids
// and by their peers. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "nic/cm/bindings.h"
#include "nic/cm/connection.h"
#include "nic/cm/remains.h"
#include "nic/cm/service_resolution.h"
#include "nic/cm/types.h"
#include "pipeline/base/limits.h"

namespace uroce::nic::cm {

/// One deadline per id. Owned by the manager, which passes the previous deadline of an id.
class Deadlines {
 public:
  void Move(CommId id, Nanos from, Nanos to) {
    if (from == to) return;
    if (from != kNever) due_.erase({from, id});
    if (to != kNever) due_.insert({to, id});
  }
  Nanos Next() const { return due_.empty() ? kNever : due_.begin()->first; }
  /// The id whose deadline is first and not later than `now`; id 0 if there is none.
  CommId FirstDue(Nanos now) const {
    return !due_.empty() && Next() <= now ? due_.begin()->second : CommId();
  }
  size_t size() const { return due_.size(); }

 private:
  std::set<std::pair<Nanos, CommId>> due_;
};

/// Returns 32 random bits that outsiders cannot guess.
using RandomSource = std::function<uint32_t()>;

struct Config {
  /// The most communications of all kinds, including those in time wait.
  size_t max_ids = 65536;
  uint32_t requests_per_second = 25'000;  ///< Per source.
  uint32_t request_burst = 10'000;
  /// REPs that are sent again, to each source. The first one answers a request.
  uint32_t repeats_per_second = 1000;
  uint32_t repeat_burst = 1000;
  Bindings::PortRange ports;
};

/// MADs and calls come in together with the time; datagrams and events go out as values. The
/// control thread calls it:
///   - the code that serves programs makes ids (Bind, Listen, Connect, Resolve ...), and destroys
///     all ids of a program when it dies;
///   - the code that receives GSI datagrams hands their MADs to OnMad;
///   - the event loop calls OnDeadline at NextDeadline;
///   - after each of these calls the caller takes all datagrams and events.
/// An id is the communication's number on the wire. It lives from the call or request that makes it
/// until Destroy. It is not given out again before its connection's time wait is over, unless that
/// has given way: remains give way to new communications wherever a bound is met.
class Manager {
 public:
  /// The most answers about services of datagrams that are kept for peers that ask again. Older
  /// ones are dropped, and their programs are asked again.
  static constexpr size_t kMostAnswers = 4096;
  /// Deadlines that one call handles; the next call handles the remaining ones.
  static constexpr int kDeadlinesAtOnce = 256;

  Manager(const Config& config, RandomSource random);

  // ---- addresses and listeners ----
  Result Bind(const BindParameters& parameters, BindingId& id);
  Result Listen(BindingId id, uint32_t backlog);
  /// Requests that the program has already received remain.
  void Release(BindingId id) { bindings_.Release(id); }
  uint16_t PortOf(BindingId id) const { return bindings_.PortOf(id); }
  std::optional<Gid> AddressOfListener(const wire::RdmaCmService& service, bool is_ipv4) const {
    return bindings_.AddressOfListener(service, is_ipv4);
  }

  // ---- connections ----
  Result Connect(const ConnectParameters& parameters, Nanos now, CommId& id);
  /// Keeps `holder` until the communication is gone: the program has destroyed the id, and the time
  /// wait is over or has given way. For an unknown id `holder` is released at once.
  void Keep(CommId id, std::shared_ptr<void> holder, const Account& account);
  /// Ends the oldest remains of the program's communications, or of its user's, so that others find
  /// room. False: there is none.
  bool EndOldestOfProgram(uint32_t program) { return End(remains_.OldestOfProgram(program)); }
  bool EndOldestOfUser(uint32_t user) { return End(remains_.OldestOfUser(user)); }
  /// The program has taken the event of a request: its place in the backlog becomes free.
  Result OnRequestTaken(CommId id);
  Result Accept(CommId id, const AcceptParameters& parameters, Nanos now);
  /// Refuses a request or a reply. `info`: more about the reason (ARI), up to 72 bytes.
  Result Reject(CommId id, wire::RejReason reason, std::span<const uint8_t> private_data,
                std::span<const uint8_t> info = {});
  Result Establish(CommId id);
  Result OnFirstPacket(CommId id);
  Result Disconnect(CommId id, Nanos now);

  // ---- services of datagrams ----
  Result Resolve(const ResolveParameters& parameters, Nanos now, CommId& id);
  Result Answer(CommId id, const ResolveAnswer& answer, Nanos now);

  /// The program gives up the id, in any state. The peer still gets the messages that it needs.
  Result Destroy(CommId id, Nanos now);
  /// A device is gone, and with it all communications on it.
  void OnDeviceGone(uint32_t device);

  // ---- events from outside ----
  /// Takes the MAD of a GSI datagram. `route`: the sender (remote), our address (local), and the
  /// traffic class and hop limit for an answer.
  void OnMad(const Route& route, std::span<const uint8_t> mad, Nanos now);
  void OnDeadline(Nanos now);
  Nanos NextDeadline() const { return deadlines_.Next(); }

  // ---- outputs ----
  std::optional<Datagram> PollDatagram();
  std::optional<Event> PollEvent();

  // ---- queries ----
  const Counters& counters() const { return outbox_.counters; }
  const Connection* FindConnection(CommId id) const;
  /// Including those in time wait.
  size_t size() const { return connections_.size() + resolutions_.size(); }
  size_t bindings() const { return bindings_.size(); }
  /// Calls `visit(const Connection&)` for each connection, in no order.
  template <typename Visit>
  void ForEachConnection(Visit visit) const {
    for (const auto& [id, entry] : connections_) visit(entry.object);
  }

 private:
  /// The peer's end: the device that reaches it, its address, its CA GUID, and the number of a
  /// communication or queue pair. A GUID alone proves nothing: every host can claim it.
  using Remote = std::tuple<uint32_t, std::array<uint8_t, 16>, uint64_t, uint32_t>;
  using Index = absl::flat_hash_map<Remote, CommId>;
  template <typename Object>
  struct Entry {
    Entry(CommId id, Outbox& outbox) : object(id, outbox) {}
    Object object;
    Nanos deadline = kNever;  ///< The deadline that `deadlines_` holds.
    BindingId place{};        ///< The listener in whose backlog it has a place.
    std::shared_ptr<void> holder;
    Account account;
  };
  using ConnectionEntry = Entry<Connection>;
  using ResolutionEntry = Entry<ServiceResolution>;
  /// Addresses of entries are stable.
  template <typename Object>
  using Table = std::unordered_map<uint32_t, Entry<Object>>;

  // Handlers, one per message type.
  void OnMessage(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnReq(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnRep(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnRej(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnDreq(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnSidrReq(const Route& route, const wire::CmMessage& message, Nanos now);
  void OnSidrRep(const Route& route, const wire::CmMessage& message);
  template <typename Body>
  void OnOther(const Route& route, const wire::CmMessage& message, Nanos now);

  // Finding the communication that a message is for.
  static Remote RemoteAt(const Route& route, uint64_t guid, uint32_t number) {
    return {route.device, route.remote.bytes, guid, number};
  }
  ConnectionEntry* Find(CommId id);
  ResolutionEntry* FindResolution(CommId id);
  ConnectionEntry* FindBy(const Index& index, const Remote& remote);
  /// Finds the connection of a pair of ids if the message comes from its peer; counts a mismatch.
  ConnectionEntry* FindPair(const Route& route, CommId ours, CommId theirs);
  ConnectionEntry* FindRejected(const Route& route, const wire::CmRej& rej);

  // Decides whether a request may begin a communication.
  enum class Refusal : uint8_t {
    kNone,
    kBusy,        ///< The backlog is full.
    kNoListener,  ///< No program listens for its service.
    kNotForUs,    ///< No listener at its address, or its addresses contradict the packet's.
  };
  /// Finds the listener. On kNone takes a place in its backlog; counts each refusal.
  Refusal FindService(const Route& route, uint64_t service_id,
                      std::span<const uint8_t> private_data, wire::RdmaCmHeader& header,
                      BindingId& listener);
  /// Whether one more communication of this source is allowed now. Counts a refusal.
  bool HasRoom(const Gid& source, Nanos now);
  /// Whether there may be one more communication. The oldest remains give way to it.
  bool MakeRoom();
  /// Ends remains. False: the number is 0.
  bool End(CommId remains);
  /// Whether a REQ's queue pair is already in a connection. If so, refuses the REQ and has the old
  /// connection ask its peer.
  bool IsStale(const Route& route, const wire::CmMessage& message, Nanos now);
  void RefuseReq(const Route& route, const wire::CmMessage& message, wire::RejReason reason);
  void RefuseRep(const Route& route, const wire::CmMessage& message, wire::RejReason reason);

  void ForgetOldAnswers();
  CommId NewId();
  /// Updates indices and deadlines after a change of an entry; frees the entry when it is finished.
  Result Settle(ConnectionEntry& entry, Result result = Result::kOk);
  Result Settle(ResolutionEntry& entry, Result result = Result::kOk);
  void EnterIndices(Connection& connection);
  void LeaveIndices(const Connection& connection);
  static void Leave(Index& index, const Connection& connection, uint32_t number);
  template <typename Object>
  void ReturnPlace(Entry<Object>& entry);

  Config config_;
  RandomSource random_;
  SourceLimit limit_;
  Outbox outbox_;
  Bindings bindings_;
  Deadlines deadlines_;
  Remains remains_;
  Table<Connection> connections_;
  Table<ServiceResolution> resolutions_;
  Index by_remote_id_;          ///< Connections that know their peer, until
  Index by_remote_qpn_;         ///< they end; without those in time wait.
  std::deque<CommId> answers_;  ///< Oldest first; some ids may be gone.
  /// Received requests, by address and id of the requester, without the CA GUID.
  absl::flat_hash_map<std::pair<std::array<uint8_t, 16>, uint32_t>, CommId> by_request_;
};

}  // namespace uroce::nic::cm
