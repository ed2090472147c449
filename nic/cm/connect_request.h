// SPDX-License-Identifier: Apache-2.0
// Requests as rdma_cm fills them in for RoCEv2 (docs/protocol/cm.md, sections 2 and 3). Pure.
#pragma once

#include "nic/cm/types.h"

namespace uroce::nic::cm {

/// The REQ of a connection.   Range: private data of at most kConnectPrivateBytes.
wire::CmReq MakeReq(CommId id, const ConnectParameters& parameters);
/// The REP to a REQ. `xrc`: the queue pair is a target of an XRC domain, whose number a REP has
/// elsewhere.
wire::CmRep MakeRep(CommId id, CommId remote_id, bool xrc, const AcceptParameters& parameters);
/// The request for a service's queue pair.   Range: at most kResolvePrivateBytes.
wire::CmSidrReq MakeSidrReq(CommId id, const ResolveParameters& parameters);

}  // namespace uroce::nic::cm
