# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries that users bring: MPI, UCX, Ceph, libfabric, perftest, rdma-core's own."""
