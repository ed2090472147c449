// SPDX-License-Identifier: Apache-2.0
// One rdma_cm_id as the service keeps it, and the attributes that it gives the program for its
// queue pair (docs/protocol/cm.md, section 5). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "nic/rdma_cm/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::nic::rdma_cm {

/// The Q_Key of datagrams between endpoints of the port spaces UDP and IB.
inline constexpr uint32_t kDatagramQkey = 0x01234567;

/// What an rdma_cm_id has: a record of what the calls of librdmacm have set, a field for each.
struct Endpoint {
  EndpointId id{};
  uint32_t client = 0;
  std::shared_ptr<void> place;  ///< Its place in the counts of program and user.
  wire::PortSpace space = wire::PortSpace::kTcp;
  ibv_qp_type qp_type = IBV_QPT_RC;
  State state = State::kIdle;
  SocketAddress local;
  SocketAddress remote;
  std::optional<Attachment> attachment;
  cm::BindingId binding{};             ///< 0: none; requests have their listener's port.
  Environment::LookupId lookup = 0;    ///< Runs in kAddressQuery.
  std::optional<PathRecord> path;      ///< Set once the route is resolved, or with a request.
  wire::Psn starting_psn;              ///< Chosen when the endpoint is made.
  cm::CommId comm;                     ///< 0: nothing was sent or received.
  std::optional<EndpointId> listener;  ///< Of a request that was not shown to the program.
  std::set<EndpointId> requests;       ///< Of a listener: these requests.
  struct Membership {
    Gid group;
    bool receives = true;  ///< The device is a member on its behalf.
    std::shared_ptr<void> place;
  };
  std::map<MembershipId, Membership> groups;
  Qpn qpn;  ///< As given to Connect or Accept.

  // Options.
  uint8_t tos = 0;
  bool reuse_address = false;
  bool own_family_only = false;
  std::optional<uint8_t> ack_timeout;

  bool is_datagram() const { return qp_type == IBV_QPT_UD; }
  bool is_xrc() const { return qp_type == IBV_QPT_XRC_SEND || qp_type == IBV_QPT_XRC_RECV; }
};

// ---- attributes for ibv_modify_qp ----

/// The address vector for packets on `path`. `gid_index`: of the path's source.
ibv_ah_attr AddressVectorOf(const PathRecord& path, uint8_t gid_index);

/// Attributes for a datagram endpoint, or one without a peer: INIT needs no peer, and for datagrams
/// RTR and RTS do not either. Errors: kWrongState: another state.
Result UnconnectedAttributes(const Endpoint& endpoint, ibv_qp_state state,
                             QueuePairAttributes& attributes);
/// Attributes for an endpoint with a peer. `agreed`: as both sides have agreed. Errors: kInvalid:
/// not a state to which rdma_cm moves queue pairs.
Result ConnectedAttributes(const Endpoint& endpoint, ibv_qp_state state,
                           const cm::QueuePairAttributes& agreed, uint8_t gid_index,
                           QueuePairAttributes& attributes);

}  // namespace uroce::nic::rdma_cm
