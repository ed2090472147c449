// SPDX-License-Identifier: Apache-2.0
// The GID table. Return codes: docs/protocol/verbs-semantics.md, section 1.
#include <string.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

/// Private to rdma-core, but ibv_devinfo and pyverbs import it: the values of the sysfs text.
enum ibv_gid_type_sysfs { IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2 };
extern "C" int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index,
                                  ibv_gid_type_sysfs* type);

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_query_gid, "IBVERBS_1.1");
UROCE_REAL(_ibv_query_gid_ex, "IBVERBS_1.11");
UROCE_REAL(_ibv_query_gid_table, "IBVERBS_1.11");
UROCE_REAL(ibv_query_gid_type, "IBVERBS_PRIVATE_34");

struct GidTableReply {
  uroce_reply header;
  uroce_gid_entry entries[UROCE_MAX_GIDS];
};

/// Reads entry `index`, valid or not. Returns 0 or an errno.
int ReadGid(ibv_context* context, uint8_t port, int64_t index, uroce_gid_entry* entry) {
  uroce_gid_entry entries[UROCE_MAX_GIDS];
  uint32_t count;
  if (port != 1) return EINVAL;
  const int error = ReadGids(*Ours(context), entries, &count);
  if (error != 0) return error;
  if (index < 0 || index >= count) return EINVAL;
  *entry = entries[index];
  return 0;
}

void Describe(const uroce_gid_entry& from, uint32_t index, ibv_gid_entry& to) {
  memset(&to, 0, sizeof(to));
  memcpy(to.gid.raw, from.gid, sizeof(from.gid));
  to.gid_index = index;
  to.port_num = 1;
  to.gid_type = from.type;
  to.ndev_ifindex = from.ifindex;
}

int QueryGidEx(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* to,
               uint32_t flags, size_t entry_bytes) {
  if (flags != 0 || entry_bytes < sizeof(ibv_gid_entry) || port != 1) return EINVAL;
  uroce_gid_entry from;
  const int error = ReadGid(context, 1, index, &from);
  if (error != 0) return error;
  if (from.valid == 0) return ENODATA;
  Describe(from, index, *to);
  return 0;
}

/// Returns the number of valid entries, or a negative errno.
ssize_t QueryGidTable(ibv_context* context, ibv_gid_entry* to, size_t room, uint32_t flags,
                      size_t entry_bytes) {
  if (flags != 0 || entry_bytes < sizeof(ibv_gid_entry)) return -EINVAL;
  uroce_gid_entry entries[UROCE_MAX_GIDS];
  uint32_t count;
  const int error = ReadGids(*Ours(context), entries, &count);
  if (error != 0) return -error;
  size_t found = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (entries[i].valid == 0) continue;
    if (found == room) return -EINVAL;
    auto* place = reinterpret_cast<uint8_t*>(to) + found * entry_bytes;
    Describe(entries[i], i, *reinterpret_cast<ibv_gid_entry*>(place));
    ++found;
  }
  return static_cast<ssize_t>(found);
}

int Fail(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace

int ReadGids(Context& context, uroce_gid_entry* entries, uint32_t* count) {
  RequestOf<uroce_handle> request = {{UROCE_QUERY_GIDS, 0}, {context.handle, 0}};
  GidTableReply reply;
  const ReplyRoom room = {&reply, sizeof(reply.header), sizeof(reply)};
  const int error = context.connection->Command(&request, sizeof(request), room);
  if (error != 0) return error;
  *count =
      static_cast<uint32_t>((reply.header.size - sizeof(uroce_reply)) / sizeof(uroce_gid_entry));
  memcpy(entries, reply.entries, *count * sizeof(uroce_gid_entry));
  return 0;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  if (!IsOurs(context)) return real_ibv_query_gid.CallOr(-1, context, port, index, gid);
  uroce_gid_entry entry;
  const int error = ReadGid(context, port, index, &entry);
  if (error != 0) return Fail(error);
  memset(gid, 0, sizeof(*gid));
  if (entry.valid != 0) memcpy(gid->raw, entry.gid, sizeof(entry.gid));
  return 0;
}

UROCE_EXPORT int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                                   ibv_gid_entry* entry, uint32_t flags, size_t entry_bytes) {
  if (IsOurs(context)) return QueryGidEx(context, port, index, entry, flags, entry_bytes);
  return real__ibv_query_gid_ex.CallOr(ENOSYS, context, port, index, entry, flags, entry_bytes);
}

UROCE_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t room,
                                          uint32_t flags, size_t entry_bytes) {
  if (IsOurs(context)) return QueryGidTable(context, entries, room, flags, entry_bytes);
  return real__ibv_query_gid_table.CallOr(-ENOSYS, context, entries, room, flags, entry_bytes);
}

UROCE_EXPORT int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index,
                                    ibv_gid_type_sysfs* type) {
  if (!IsOurs(context)) return real_ibv_query_gid_type.CallOr(-1, context, port, index, type);
  uroce_gid_entry entry;
  const int error = ReadGid(context, port, index, &entry);
  if (error != 0) return Fail(error);
  // An empty slot has no type: programs then expect what sysfs has for RoCE v1 and IB.
  const bool is_v2 = entry.valid != 0 && entry.type == IBV_GID_TYPE_ROCE_V2;
  *type = is_v2 ? IBV_GID_TYPE_SYSFS_ROCE_V2 : IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
  return 0;
}

}  // extern "C"
