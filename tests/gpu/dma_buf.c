/* SPDX-License-Identifier: Apache-2.0
 * A DMA-buf of a display (vgem, a display without hardware, or another DRM device with dumb
 * buffers) as the memory of a region: each byte of WRITEs and READs between uroce0 and uroce1 is
 * compared. dma_buf /dev/dri/card0 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "tests/bench/programs/verbs_pair.h"

/* Of the kernel's interface of DRM devices, for which Debian has a package that no test needs. */
struct dumb_buffer {
  uint32_t height;
  uint32_t width;
  uint32_t bits_per_pixel;
  uint32_t flags;
  uint32_t handle;
  uint32_t pitch;
  uint64_t size;
};
struct exported_handle {
  uint32_t handle;
  uint32_t flags;
  int32_t fd;
};
#define CREATE_DUMB_BUFFER _IOWR('d', 0xb2, struct dumb_buffer)
#define EXPORT_HANDLE _IOWR('d', 0x2d, struct exported_handle)

static const int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
static const uint64_t kIova = 0x100000;
static const size_t kPage = 4096;

/* Returns a DMA-buf of 1 MB, and its size. */
static int make_dma_buf(const char* card, size_t* size) {
  const int fd = open(card, O_RDWR | O_CLOEXEC);
  bench_require(fd >= 0, card);
  struct dumb_buffer buffer = {.width = 1024, .height = 256, .bits_per_pixel = 32};
  bench_require(!ioctl(fd, CREATE_DUMB_BUFFER, &buffer), "a dumb buffer");
  struct exported_handle exported = {.handle = buffer.handle, .flags = O_CLOEXEC | O_RDWR};
  bench_require(!ioctl(fd, EXPORT_HANDLE, &exported), "its DMA-buf");
  *size = buffer.size;
  return exported.fd;
}

static enum ibv_wc_status execute(struct ibv_qp* qp, struct ibv_cq* cq, struct ibv_send_wr* work) {
  struct ibv_send_wr* bad;
  struct ibv_wc completion;
  work->send_flags = IBV_SEND_SIGNALED;
  bench_require(!ibv_post_send(qp, work, &bad), "ibv_post_send");
  while (ibv_poll_cq(cq, 1, &completion) == 0) continue;
  return completion.status;
}

int main(int argc, char** argv) {
  bench_require(argc == 2, "usage: dma_buf /dev/dri/card0");
  size_t size;
  const int fd = make_dma_buf(argv[1], &size);
  uint8_t* const view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  bench_require(view != MAP_FAILED, "mmap");
  struct bench_end near;
  struct bench_end far;
  bench_open(&near, "uroce0", 1, 16);
  bench_open(&far, "uroce1", 1, 16);
  struct ibv_qp* const qp = bench_make_qp(&near, 16, 0);
  struct ibv_qp* const peer = bench_make_qp(&far, 16, 0);
  bench_connect(&near, qp, &far, peer);
  struct ibv_qp_attr rights = {.qp_access_flags = (unsigned)kAccess};
  bench_require(!ibv_modify_qp(peer, &rights, IBV_QP_ACCESS_FLAGS), "the rights of the peer");

  const size_t length = size - kPage; /* The region begins in the second page. */
  uint8_t* const host = aligned_alloc(kPage, size);
  for (size_t i = 0; i < size; ++i) host[i] = (uint8_t)(i * 7 + i / kPage + 1);
  struct ibv_mr* const own = ibv_reg_mr(near.pd, host, size, kAccess);
  struct ibv_mr* const mr = ibv_reg_dmabuf_mr(far.pd, kPage, length, kIova, fd, kAccess);
  bench_require(own != NULL && mr != NULL, "ibv_reg_dmabuf_mr");

  struct ibv_sge entry = {.addr = (uintptr_t)host, .lkey = own->lkey};
  struct ibv_send_wr work = {.sg_list = &entry,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {.remote_addr = kIova, .rkey = mr->rkey}};
  for (size_t bytes = 1; bytes <= length; bytes = bytes * 3 + 1) {
    memset(view, 0, size);
    entry.length = (uint32_t)bytes;
    bench_require(execute(qp, near.cq, &work) == IBV_WC_SUCCESS, "a WRITE");
    const int is_right = memcmp(view + kPage, host, bytes) == 0 && view[kPage - 1] == 0 &&
                         (bytes == length || view[kPage + bytes] == 0);
    bench_require(is_right, "the bytes of a WRITE");
  }
  memcpy(view + kPage, host + kPage, length);
  memset(host, 0, size);
  entry.length = (uint32_t)length;
  work.opcode = IBV_WR_RDMA_READ;
  bench_require(execute(qp, near.cq, &work) == IBV_WC_SUCCESS, "a READ");
  bench_require(memcmp(host, view + kPage, length) == 0, "the bytes of a READ");

  errno = 0;
  bench_require(!ibv_reg_dmabuf_mr(far.pd, 0, size + 1, 0, fd, kAccess) && errno == EINVAL,
                "bytes behind the end");
  bench_require(!ibv_reg_dmabuf_mr(far.pd, 0, size, 1, fd, kAccess) && errno == EINVAL,
                "another offset in its page");
  bench_require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
  bench_require(execute(qp, near.cq, &work) == IBV_WC_REM_ACCESS_ERR, "a key that has ended");
  printf("dma_buf: %zu bytes right\n", length);
  return 0;
}
