/* SPDX-License-Identifier: Apache-2.0
 * What the devices do not have, by the error that docs/guide/programs.md names;
 * and arguments that are wrong. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/e2e/programs/rare_calls/rare_calls.h"

static const uint32_t kUnservedFields[] = {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG,
                                           IBV_WC_EX_WITH_TM_INFO};

static void unsupported_queues(struct bench_end* end) {
  struct ibv_context* context = end->context;
  for (size_t i = 0; i < sizeof(kUnservedFields) / sizeof(kUnservedFields[0]); ++i) {
    struct ibv_cq_init_attr_ex cq = {.cqe = 4, .wc_flags = kUnservedFields[i]};
    ca_refused(ibv_create_cq_ex(context, &cq), EOPNOTSUPP, "a field of completions");
  }
  struct ibv_cq_init_attr_ex overrun = {.cqe = 4,
                                        .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                        .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
  ca_refused(ibv_create_cq_ex(context, &overrun), EOPNOTSUPP, "ignored overruns");
  struct ibv_srq_init_attr_ex srq = {
      .attr = {.max_wr = 4, .max_sge = 1},
      .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ,
      .srq_type = IBV_SRQT_TM,
      .pd = end->pd,
      .cq = end->cq};
  ca_refused(ibv_create_srq_ex(context, &srq), EOPNOTSUPP, "tag matching");
  struct ibv_qp_init_attr raw = {.send_cq = end->cq,
                                 .recv_cq = end->cq,
                                 .qp_type = IBV_QPT_RAW_PACKET,
                                 .cap = {1, 1, 1, 1, 0}};
  ca_refused(ibv_create_qp(end->pd, &raw), EOPNOTSUPP, "raw packets");
  struct ibv_qp_init_attr_ex extended = {
      .send_cq = end->cq,
      .recv_cq = end->cq,
      .qp_type = IBV_QPT_RC,
      .cap = {1, 1, 1, 1, 0},
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
      .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
      .pd = end->pd};
  ca_refused(ibv_create_qp_ex(context, &extended), EOPNOTSUPP, "a create flag");
  extended.create_flags = 0;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH;
  ca_refused(ibv_create_qp_ex(context, &extended), EOPNOTSUPP, "RSS");
  extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  ca_refused(ibv_create_qp_ex(context, &extended), EOPNOTSUPP, "TSO");
  struct ibv_wq_init_attr wq = {
      .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = end->pd, .cq = end->cq};
  ca_refused(ibv_create_wq(context, &wq), EOPNOTSUPP, "ibv_create_wq");
  struct ibv_rwq_ind_table_init_attr table = {0};
  ca_refused(ibv_create_rwq_ind_table(context, &table), EOPNOTSUPP, "ibv_create_rwq_ind_table");
}

static void unsupported_of_connections(struct bench_end* end) {
  struct ibv_qp* qp = bench_make_qp(end, 4, 0);
  struct ibv_flow_attr flow = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(flow), .port = 1};
  ca_refused(ibv_create_flow(qp, &flow), EOPNOTSUPP, "ibv_create_flow");
  struct ibv_ece ece = {0};
  ca_returns(ibv_query_ece(qp, &ece), EOPNOTSUPP, "ibv_query_ece");
  ca_returns(ibv_set_ece(qp, &ece), EOPNOTSUPP, "ibv_set_ece");
  bench_require(!ibv_destroy_qp(qp), "ibv_destroy_qp");
}

/* Of newer headers: IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT. */
static const int kFlushFlags[] = {1 << 8, 1 << 9};

static void unsupported_of_regions(struct bench_end* end) {
  static uint8_t bytes[64];
  for (size_t i = 0; i < sizeof(kFlushFlags) / sizeof(kFlushFlags[0]); ++i) {
    const int access = IBV_ACCESS_LOCAL_WRITE | kFlushFlags[i];
    ca_refused(ibv_reg_mr(end->pd, bytes, sizeof(bytes), access), EOPNOTSUPP, "FLUSH");
  }
  ca_refused(ibv_reg_dmabuf_mr(end->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE), EBADF,
             "ibv_reg_dmabuf_mr without a file");
  ca_refused(ibv_reg_dmabuf_mr(end->pd, 0, 4096, 0, end->context->cmd_fd, IBV_ACCESS_LOCAL_WRITE),
             EINVAL, "ibv_reg_dmabuf_mr of another file");
  ca_refused(ibv_import_dm(end->context, 77), ENOENT, "ibv_import_dm");
}

/* A region belongs to who made it. */
static void unsupported_of_imported(struct bench_end* end) {
  const size_t length = 4096;
  uint8_t* bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  struct ibv_mr* own = ibv_reg_mr(end->pd, bytes, length, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_context* context = ibv_import_device(dup(end->context->cmd_fd));
  bench_require(own != NULL && context != NULL, "ibv_import_device");
  struct ibv_pd* pd = ibv_import_pd(context, end->pd->handle);
  bench_require(pd != NULL, "ibv_import_pd");
  struct ibv_mr* mr = ibv_import_mr(pd, own->handle);
  bench_require(mr != NULL, "ibv_import_mr");
  ca_returns(ibv_dereg_mr(mr), EINVAL, "ibv_dereg_mr of an imported region");
  errno = 0;
  bench_require(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0 && errno == EINVAL,
      "ibv_rereg_mr of an imported region");
  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);
  bench_require(!ibv_close_device(context) && !ibv_dereg_mr(own), "the end of what is imported");
  munmap(bytes, length);
}

void ca_unsupported(struct ca_bed* bed) {
  struct bench_end* end = &bed->a;
  unsupported_queues(end);
  unsupported_of_connections(end);
  unsupported_of_regions(end);
  unsupported_of_imported(end);
  struct ibv_counters_init_attr counters = {0};
  ca_refused(ibv_create_counters(end->context, &counters), EOPNOTSUPP, "ibv_create_counters");
  struct ibv_flow_action_esp_attr action = {0};
  ca_refused(ibv_create_flow_action_esp(end->context, &action), EOPNOTSUPP, "a flow action");
}

static void bad_regions(struct bench_end* end) {
  static uint8_t bytes[64];
  uint8_t* closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const int write = IBV_ACCESS_LOCAL_WRITE;
  ca_refused(ibv_reg_mr(end->pd, bytes, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL,
             "remote without local");
  ca_refused(ibv_reg_mr(end->pd, bytes, SIZE_MAX, write), EINVAL, "a region that wraps");
  ca_refused(ibv_reg_mr(end->pd, closed, 64, write), EFAULT, "memory without access");
  struct ibv_alloc_dm_attr dm = {0};
  ca_refused(ibv_alloc_dm(end->context, &dm), EINVAL, "device memory of no bytes");
  dm.length = (size_t)1 << 40;
  ca_refused(ibv_alloc_dm(end->context, &dm), ENOMEM, "more device memory than there is");
}

/* As libibverbs refuses them: the region stays as it is. */
static void bad_changes_of_regions(struct bench_end* end) {
  static uint8_t bytes[64];
  const int moved = IBV_REREG_MR_CHANGE_TRANSLATION, write = IBV_ACCESS_LOCAL_WRITE;
  struct ibv_mr* mr = ibv_reg_mr(end->pd, bytes, sizeof(bytes), write);
  bench_require(mr != NULL, "ibv_reg_mr");
  ca_returns(ibv_rereg_mr(mr, moved, NULL, bytes, 0, 0), IBV_REREG_MR_ERR_INPUT, "no bytes");
  ca_returns(ibv_rereg_mr(mr, moved, NULL, NULL, 32, 0), IBV_REREG_MR_ERR_INPUT, "no address");
  ca_returns(ibv_rereg_mr(mr, moved, NULL, bytes, 32, write), IBV_REREG_MR_ERR_INPUT,
             "rights that the flags do not announce");
  bench_require(mr->length == sizeof(bytes) && !ibv_dereg_mr(mr), "the region as it was");
}

static void bad_queues(struct bench_end* end) {
  struct ibv_device_attr device;
  bench_require(!ibv_query_device(end->context, &device), "ibv_query_device");
  struct ibv_context* context = end->context;
  ca_refused(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL, "a CQ of no entries");
  ca_refused(ibv_create_cq(context, device.max_cqe + 1, NULL, NULL, 0), EINVAL, "a CQ too large");
  ca_refused(ibv_create_cq(context, 4, NULL, NULL, context->num_comp_vectors), EINVAL, "a vector");
  ca_returns(ibv_resize_cq(end->cq, device.max_cqe + 1), EINVAL, "ibv_resize_cq too large");
  struct ibv_qp_init_attr qp = {.send_cq = end->cq,
                                .recv_cq = end->cq,
                                .qp_type = IBV_QPT_RC,
                                .cap = {(uint32_t)device.max_qp_wr + 1, 1, 1, 1, 0}};
  ca_refused(ibv_create_qp(end->pd, &qp), EINVAL, "more works than max_qp_wr");
  qp.cap = (struct ibv_qp_cap){1, 1, (uint32_t)device.max_sge + 1, 1, 0};
  ca_refused(ibv_create_qp(end->pd, &qp), EINVAL, "more entries than max_sge");
  qp.cap = (struct ibv_qp_cap){1, 1, 1, 1, 0};
  qp.send_cq = NULL;
  ca_refused(ibv_create_qp(end->pd, &qp), EINVAL, "no send CQ");
  struct ibv_srq_init_attr srq = {.attr = {(uint32_t)device.max_srq_wr + 1, 1, 0}};
  ca_refused(ibv_create_srq(end->pd, &srq), EINVAL, "more works than max_srq_wr");
}

static void bad_paths(struct bench_end* end) {
  struct ibv_ah_attr attributes = {.port_num = 1};
  ca_refused(ibv_create_ah(end->pd, &attributes), EINVAL, "an address without GRH");
  attributes.is_global = 1;
  attributes.grh.dgid = end->gid;
  attributes.grh.sgid_index = 200;
  ca_refused(ibv_create_ah(end->pd, &attributes), EINVAL, "an index without GID");
  struct ibv_qp* qp = bench_make_qp(end, 4, 0);
  union ibv_gid group = {.raw = {0xff, 0x0e}};
  ca_returns(ibv_attach_mcast(qp, &group, 0), EINVAL, "a group of a connection");
  ca_returns(ibv_detach_mcast(qp, &group, 0), EINVAL, "a group that it is not in");
  struct ibv_qp_attr state = {.qp_state = IBV_QPS_RTS};
  ca_returns(ibv_modify_qp(qp, &state, IBV_QP_STATE), EINVAL, "INIT to RTS");
  state.qp_state = IBV_QPS_INIT;
  ca_returns(ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_RATE_LIMIT), EINVAL,
             "a rate limit of INIT");
  ca_returns(ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_ALT_PATH), EINVAL, "another path");
  bench_require(!ibv_destroy_qp(qp), "ibv_destroy_qp");
}

void ca_bad_arguments(struct ca_bed* bed) {
  bad_regions(&bed->a);
  bad_changes_of_regions(&bed->a);
  bad_queues(&bed->a);
  bad_paths(&bed->a);
}
