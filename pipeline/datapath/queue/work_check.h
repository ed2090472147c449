// SPDX-License-Identifier: Apache-2.0
// Checks the private copy of a work request and states it in the transport's terms.
#pragma once

#include <cstdint>

#include "pipeline/datapath/memory/window_works.h"
#include "pipeline/shm/rings/wqe.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/opcode.h"

namespace uroce::datapath {

/// Work that cannot be executed (lengths, list, opcode, an atomic without room) comes back
/// `malformed` and completes with LOC_QP_OP_ERR: the shim refuses it at the post, so only a program
/// that writes rings by itself gets there. Opcodes that `service` lacks are the transport's to
/// refuse.
transport::SendWork ToSendWork(const rings::SendWqe& wqe, rings::WqeResult read, uint32_t slot,
                               wire::Service service);
/// What a work request that is kBindWindow, and not malformed, asks for.
BindRequest ToBindRequest(const uroce_send_wqe& header);
/// ReceiveWork::queue of a work that was taken from a shared receive queue; of others it is 0, and
/// of XRC the number of the queue, which is greater.
inline constexpr uint32_t kSharedQueue = 1;

transport::ReceiveWork ToReceiveWork(const rings::ReceiveWqe& wqe, rings::WqeResult read,
                                     uint32_t slot);

}  // namespace uroce::datapath
