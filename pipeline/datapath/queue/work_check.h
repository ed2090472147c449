// SPDX-License-Identifier: Apache-2.0
// Checks the private copy of a work request and states it in the transport's terms.
#pragma once

#include <cstdint>

#include "pipeline/datapath/memory/window_works.h"
#include "pipeline/shm/rings/wqe.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/opcode.h"

namespace uroce::datapath {

/// A work that cannot be executed (lengths, list, opcode, an atomic without room) comes back
/// `malformed` and completes with LOC_QP_OP_ERR. The shim refuses such a work at the post, so only
/// a program that writes rings by itself causes it. The transport refuses opcodes that `service`
/// lacks.
transport::SendWork ToSendWork(const rings::SendWqe& wqe, rings::WqeResult read, uint32_t slot,
                               wire::Service service);
/// The binding that a work request asks for. Range: it is kBindWindow, and not malformed.
BindRequest ToBindRequest(const uroce_send_wqe& header);
/// ReceiveWork::queue of a work from a shared receive queue. It is 0 for other works, and for XRC
/// the number of the queue, which is greater.
inline constexpr uint32_t kSharedQueue = 1;

transport::ReceiveWork ToReceiveWork(const rings::ReceiveWqe& wqe, rings::WqeResult read,
                                     uint32_t slot);

}  // namespace uroce::datapath
