// SPDX-License-Identifier: Apache-2.0
// Builds requests as rdma_cm does for RoCEv2 (docs/protocol/cm.md, sections 2 and 3). Pure.
#pragma once

#include "nic/cm/types.h"

namespace uroce::nic::cm {

/// Makes the REQ of a connection.   Range: private data of at most kConnectPrivateBytes.
wire::CmReq MakeReq(CommId id, const ConnectParameters& parameters);
/// Makes the REP to a REQ. `xrc`: the queue pair is a target of an XRC domain; a REP carries the
/// number of such a queue pair in another field.
wire::CmRep MakeRep(CommId id, CommId remote_id, bool xrc, const AcceptParameters& parameters);
/// Makes the request for a service's queue pair.   Range: at most kResolvePrivateBytes.
wire::CmSidrReq MakeSidrReq(CommId id, const ResolveParameters& parameters);

}  // namespace uroce::nic::cm
