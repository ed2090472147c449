// SPDX-License-Identifier: Apache-2.0
// The verbs that programs call through the tables in ibv_context, helpers of several sources, and
// the conversion of attributes between verbs and the ABI of the daemon.
#pragma once

#include <infiniband/verbs.h>

#include "pipeline/shm/abi/uroce_commands.h"
#include "verbs-shim/objects.h"

namespace uroce::shim {

// ---- Attributes of queue pairs and address handles, between verbs and the ABI of the daemon ----

uroce_qp_cap ToAbi(const ibv_qp_cap& cap);
ibv_qp_cap FromAbi(const uroce_qp_cap& cap);

uroce_ah_attr ToAbi(const ibv_ah_attr& attr);
ibv_ah_attr FromAbi(const uroce_ah_attr& attr);

/// Converts the attributes that `mask` names; programs leave the others uninitialized.
uroce_qp_attr ToAbi(const ibv_qp_attr& attr, int mask);
/// Converts all attributes that the daemon reports; fields that it does not know are 0.
ibv_qp_attr FromAbi(const uroce_qp_attr& attr);
/// IBV_QPS_ERR for a number that is no state.
inline ibv_qp_state StateFromAbi(uint32_t state) {
  return state < IBV_QPS_ERR ? static_cast<ibv_qp_state>(state) : IBV_QPS_ERR;
}

// ---- ibv_context.ops ----
ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type);
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int DeallocMw(ibv_mw* mw);
int PollCq(ibv_cq* cq, int count, ibv_wc* wcs);
int RequestNotify(ibv_cq* cq, int solicited_only);
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int PostReceive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int PostSharedReceive(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

// ---- verbs_context ----
int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t length);
int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attributes, size_t length);
int QueryRtValues(ibv_context* context, ibv_values_ex* values);
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attributes);
int ModifyCq(ibv_cq* cq, ibv_modify_cq_attr* attributes);
ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* attributes);
int GetSrqNum(ibv_srq* srq, uint32_t* number);
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attributes);
int ModifyQpRateLimit(ibv_qp* qp, ibv_qp_rate_limit_attr* attributes);
ibv_xrcd* OpenXrcd(ibv_context* context, ibv_xrcd_init_attr* attributes);
int CloseXrcd(ibv_xrcd* xrcd);
ibv_qp* OpenQp(ibv_context* context, ibv_qp_open_attr* attributes);
ibv_td* AllocTd(ibv_context* context, ibv_td_init_attr* attributes);
int DeallocTd(ibv_td* td);
ibv_pd* AllocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* attributes);
int AdviseMr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sges,
             uint32_t num_sge);
ibv_mr* AllocNullMr(ibv_pd* pd);
ibv_dm* AllocDm(ibv_context* context, ibv_alloc_dm_attr* attributes);
int FreeDm(ibv_dm* dm);
ibv_mr* RegDmMr(ibv_pd* pd, ibv_dm* dm, uint64_t dm_offset, size_t length, unsigned int access);

/// Fills every slot of both tables. Slots of verbs that the shim lacks get functions that refuse.
void FillOps(verbs_context& context);
/// Fills the slots of the verbs that the shim lacks.
void FillAbsentOps(verbs_context& context);

// ---- between files ----

/// Gives `cq` the functions of ibv_cq_ex.
void FillCqEx(ibv_cq_ex& cq);
/// Gives `queue_pair` the functions of ibv_qp_ex.
void FillQpEx(ibv_qp_ex& queue_pair);

/// Locks `cq` and takes its first completion into cq.current. After many polls that found nothing,
/// it yields the core and looks again. So an empty poll has seen everything that completed before
/// it: a program that reads of a disconnection next has had all completions that came before.
/// Returns 0. Errors leave `cq` unlocked: ENOENT when there is none, EIO when none will ever come.
int StartPoll(CompletionQueue& cq);
/// Takes the next completion of `cq` into cq.current. When the daemon is gone, the shim makes the
/// completion. The caller holds cq.lock. Returns false when there is none.
bool TakeCompletion(CompletionQueue& cq);
/// Gives polled entries back to the worker, and unlocks `cq`.
void FinishPoll(CompletionQueue& cq);
/// Drops the completions of `queue_pair` that wait on its CQs. Afterwards no poller refers to it.
/// ibv_destroy_qp does so, as the libraries of mlx5, mlx4, bnxt_re, irdma and hns do and those of
/// rxe and siw do not. Programs cannot rely on either: they poll the completions that they want
/// before, and free what wr_id points to after a poll.
void ForgetCompletions(QueuePair& queue_pair);
/// Like the other overload, for a shared receive queue of XRC.
void ForgetCompletions(SharedReceiveQueue& srq);
/// Makes a target queue pair of `xrcd`.
ibv_qp* CreateTarget(ibv_xrcd* xrcd, void* qp_context);

/// Checks one request of post_send, and writes it to the next slot. Returns 0 or an errno.
int WriteSend(QueuePair& queue_pair, const ibv_send_wr& wr);
/// Writes a receive request to the next slot of `ring`, which has room. Returns 0 or an errno.
int WriteReceive(rings::WorkQueueProducer& ring, uint32_t max_sge, const ibv_recv_wr& wr);
/// Sets the address in `wr` in the request, a datagram, that WriteSend wrote last.
void SetAddress(QueuePair& queue_pair, const ibv_send_wr& wr);
/// Sets the remote shared receive queue of the request that WriteSend wrote last. For XRC.
void SetRemoteSrq(QueuePair& queue_pair, uint32_t srqn);
/// Publishes the requests since `first` and rings the doorbell. The caller holds send.lock.
void PublishSends(QueuePair& queue_pair, uint32_t first);
/// Has the worker look at the queues. The caller holds send.lock or receive.lock.
void RingDoorbell(const QueuePair& queue_pair);
/// 0, or the errno for which the send queue takes no request now.
int CheckSendable(const QueuePair& queue_pair);

/// Fills `entries`, of UROCE_MAX_GIDS, with the GID table, and sets `*count` to its length. Returns
/// 0 or an errno.
int ReadGids(Context& context, uroce_gid_entry* entries, uint32_t* count);

/// Called after `ended` left the table of events. If the daemon `sent` more asynchronous events of
/// it than the program was given, discards those that the program has not read.
void DropUnread(Context& context, const EventSource& ended, uint32_t sent);

/// Waits until `*completed` reaches `given`: the program must acknowledge the events that it was
/// given before their object is freed. The object is in no table any more, so no further event
/// comes.
void WaitForAcknowledgement(pthread_mutex_t& mutex, pthread_cond_t& condition,
                            const uint32_t* completed, uint32_t given);

/// Runs a command that ends an object. When the object's daemon is gone, ends the object without
/// it.
template <typename Reply>
int EndObject(DaemonConnection& connection, uroce_command command, uint32_t handle, Reply* reply) {
  const uroce_handle request = {handle, 0};
  *reply = {};
  const int error = Call(connection, command, request, reply);
  return connection.state() == ConnectionState::kDaemonGone ? 0 : error;
}
inline int EndObject(DaemonConnection& connection, uroce_command command, uint32_t handle) {
  const uroce_handle request = {handle, 0};
  const int error = Call(connection, command, request);
  return connection.state() == ConnectionState::kDaemonGone ? 0 : error;
}

/// Makes an object that the daemon knows by a handle alone.
template <typename Request>
int MakeHandle(DaemonConnection& connection, uroce_command command, const Request& request,
               uint32_t* handle) {
  uroce_handle reply;
  const int error = Call(connection, command, request, &reply);
  if (error == 0) *handle = reply.handle;
  return error;
}

/// Undoes a command whose fds have not all come, because the program has no room for them. Closes
/// the fds that have come. Returns EMFILE.
int TakeBack(DaemonConnection& connection, uroce_command end, uint32_t handle, const int* fds,
             uint32_t fd_count);

/// Like TakeBack, for an object that comes with `Count` fds; `end` is the command that ends it.
template <size_t Count, typename Request>
int MakeHandle(DaemonConnection& connection, uroce_command command, const Request& request,
               uint32_t* handle, int (&fds)[Count], uroce_command end) {
  uroce_handle reply;
  uint32_t fd_count = Count;
  const int error = Call(connection, command, request, &reply, fds, &fd_count);
  if (error != 0) return error;
  *handle = reply.handle;
  return fd_count == Count ? 0 : TakeBack(connection, end, reply.handle, fds, fd_count);
}

}  // namespace uroce::shim
