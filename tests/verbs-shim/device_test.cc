// SPDX-License-Identifier: Apache-2.0
// Devices, ports, GIDs: docs/protocol/verbs-semantics.md, sections 1 to 3 and 10.
#include <dlfcn.h>

#include <cstring>

#include "tests/verbs-shim/shim_fixture.h"

extern "C" int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index,
                                  int* type);

namespace uroce::shim_test {
namespace {

class DeviceTest : public ShimTest {};

TEST_F(DeviceTest, ADeviceKeepsItsPointerInEveryList) {
  int count = 0;
  ibv_device** first = ibv_get_device_list(&count);
  ibv_device** second = ibv_get_device_list(nullptr);
  EXPECT_GE(count, 2);
  EXPECT_EQ(first[0], second[0]);
  EXPECT_EQ(first[1], second[1]);
  EXPECT_NE(first[0], first[1]);
  EXPECT_STREQ(ibv_get_device_name(first[1]), "fake1");
  EXPECT_EQ(ibv_get_device_guid(first[0]), 0x0100000000005254u);
  EXPECT_EQ(context_->device, first[0]);
  ibv_free_device_list(first);
  ibv_free_device_list(second);
}

TEST_F(DeviceTest, WithoutADaemonTheListIsEmptyAndNoError) {
  daemon_->Stop();
  int count = -1;
  errno = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(errno, 0);
  for (int i = 0; i < count; ++i) EXPECT_NE(strncmp(list[i]->name, "fake", 4), 0) << list[i]->name;
  EXPECT_EQ(list[count], nullptr);
  ibv_free_device_list(list);
}

TEST_F(DeviceTest, EverySlotOfTheTablesIsFilled) {
  ASSERT_EQ(context_->abi_compat, __VERBS_ABI_IS_EXTENDED);
  const verbs_context* extended = verbs_get_ctx(context_);
  // Slots of newer headers stand before query_port, and count as missing.
  ASSERT_EQ(extended->sz, sizeof(verbs_context) - offsetof(verbs_context, query_port));
  const auto* slots = reinterpret_cast<void* const*>(&extended->query_port);
  constexpr size_t kBytes =
      offsetof(verbs_context, _ABI_placeholder3) - offsetof(verbs_context, query_port);
  for (size_t i = 0; i < kBytes / sizeof(void*); ++i) {
    EXPECT_NE(slots[i], nullptr) << i;
  }
  const auto* ops = reinterpret_cast<void* const*>(&context_->ops);
  for (size_t i = 0; i < sizeof(context_->ops) / sizeof(void*); ++i) {
    EXPECT_NE(ops[i], nullptr) << i;
  }
}

TEST_F(DeviceTest, ThePortSpeedIsInUnitsOfOneHundredMegabits) {
  int (*query)(ibv_context*, uint32_t, uint64_t*) = nullptr;
  query = reinterpret_cast<decltype(query)>(dlsym(RTLD_DEFAULT, "ibv_query_port_speed"));
  ASSERT_NE(query, nullptr);
  uint64_t speed = 0;
  ASSERT_EQ(query(context_, 1, &speed), 0);
  EXPECT_EQ(speed, 1000u);
  EXPECT_EQ(query(context_, 2, &speed), EINVAL);
}

TEST_F(DeviceTest, TheExportedQueryPortWritesOnlyTheOldStructure) {
  struct {
    ibv_port_attr attr;
    uint8_t guard[64];
  } place;
  memset(&place, 0xee, sizeof(place));
  auto* exported = &(ibv_query_port);
  ASSERT_EQ(exported(context_, 1, reinterpret_cast<_compat_ibv_port_attr*>(&place.attr)), 0);
  EXPECT_EQ(place.attr.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(place.attr.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(reinterpret_cast<uint8_t*>(&place)[48], 0xee);
}

TEST_F(DeviceTest, TheQueryPortOpHonoursTheLengthOfANewerStructure) {
  uint8_t place[80];
  memset(place, 0xee, sizeof(place));
  auto* attr = reinterpret_cast<ibv_port_attr*>(place);
  ASSERT_EQ(verbs_get_ctx(context_)->query_port(context_, 1, attr, 56), 0);
  EXPECT_EQ(attr->max_mtu, IBV_MTU_4096);
  EXPECT_EQ(attr->gid_tbl_len, 8);
  EXPECT_EQ(place[55], 0);
  EXPECT_EQ(place[56], 0xee);
}

TEST_F(DeviceTest, PortsOtherThanOneDoNotExist) {
  ibv_port_attr attr;
  EXPECT_EQ(ibv_query_port(context_, 2, &attr), EINVAL);
  EXPECT_EQ(ibv_query_port(context_, 0, &attr), EINVAL);
}

TEST_F(DeviceTest, AnEmptyGidSlotIsZeroButNoEntry) {
  ibv_gid gid;
  EXPECT_EQ(ibv_query_gid(context_, 1, 0, &gid), 0);
  EXPECT_EQ(gid.global.subnet_prefix | gid.global.interface_id, 0u);
  ibv_gid_entry entry;
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 0, &entry, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 1, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
  EXPECT_EQ(entry.gid.raw[12], 10);
  int type = -1;
  EXPECT_EQ(ibv_query_gid_type(context_, 1, 1, &type), 0);
  EXPECT_EQ(type, 1);
}

TEST_F(DeviceTest, AGidIndexBehindTheTableIsInvalid) {
  ibv_gid gid;
  errno = 0;
  EXPECT_EQ(ibv_query_gid(context_, 1, 8, &gid), -1);
  EXPECT_EQ(errno, EINVAL);
  ibv_gid_entry entry;
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 8, &entry, 0), EINVAL);
}

TEST_F(DeviceTest, TheGidTableHoldsValidEntriesOnly) {
  ibv_gid_entry entries[8];
  ASSERT_EQ(ibv_query_gid_table(context_, entries, 8, 0), 1);
  EXPECT_EQ(entries[0].gid_index, 1u);
  EXPECT_EQ(ibv_query_gid_table(context_, entries, 0, 0), -EINVAL);
}

TEST_F(DeviceTest, QueryDeviceExFillsWhatFits) {
  ibv_device_attr_ex attr;
  memset(&attr, 0xee, sizeof(attr));
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  EXPECT_EQ(attr.orig_attr.max_cqe, 1 << 20);
  EXPECT_EQ(attr.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_STREQ(attr.orig_attr.fw_ver, "1.2.3");
  EXPECT_EQ(attr.completion_timestamp_mask, UINT64_MAX);
  EXPECT_EQ(attr.hca_core_clock, 1'000'000u) << "kHz: times in ns";
  EXPECT_EQ(attr.phys_port_cnt_ex, 1u);
}

TEST_F(DeviceTest, AbsentVerbsSayNotSupported) {
  errno = 0;
  ibv_counters_init_attr counters = {};
  EXPECT_EQ(ibv_create_counters(context_, &counters), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(DeviceTest, PkeyTableHasOneEntry) {
  __be16 pkey = 0;
  EXPECT_EQ(ibv_query_pkey(context_, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(ibv_query_pkey(context_, 1, 1, &pkey), -1);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, 0xffff), 0);
}

}  // namespace
}  // namespace uroce::shim_test
