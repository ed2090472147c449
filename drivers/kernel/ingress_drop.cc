// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/ingress_drop.h"

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "pipeline/wire/packet.h"

namespace uroce::drivers {
namespace {

// Of <linux/bpf.h> of Linux 6.6.
constexpr uint32_t kTcxIngress = 46;  ///< BPF_TCX_INGRESS
constexpr int32_t kTcxNext = -1;      ///< TCX_NEXT: other programs and the kernel's IP go on.
constexpr int32_t kTcxDrop = 2;       ///< TCX_DROP

constexpr uint32_t kMostAddresses = 4096;  ///< Of all ports; packets to further ones go on.

/// The new fd, or an empty one.
template <typename Attributes>
Fd Bpf(bpf_cmd command, const Attributes& attributes) {
  return Fd(static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes)));
}
template <typename Attributes>
void Tell(bpf_cmd command, const Attributes& attributes) {
  syscall(SYS_bpf, command, &attributes, sizeof attributes);
}
uint64_t AddressOf(const void* at) { return reinterpret_cast<uintptr_t>(at); }

/// Instructions, each appended; see bpf(2) and the kernel's instruction-set.rst.
class Assembler {
 public:
  enum Register : uint8_t { r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, fp };

  void Move(Register to, Register from) { Add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  void Set(Register to, int32_t value) { Compute(BPF_MOV, to, value); }
  void AddTo(Register to, int32_t value) { Compute(BPF_ADD, to, value); }
  void And(Register to, int32_t value) { Compute(BPF_AND, to, value); }
  /// `size`: BPF_B, BPF_H, BPF_W or BPF_DW.
  void Load(uint8_t size, Register to, Register from, size_t offset) {
    Add(BPF_LDX | BPF_MEM | size, to, from, static_cast<int16_t>(offset), 0);
  }
  void Store(uint8_t size, Register to, int16_t offset, Register from) {
    Add(BPF_STX | BPF_MEM | size, to, from, offset, 0);
  }
  /// The mode of the load, BPF_IMM, is 0.
  void LoadMap(Register to, int map) {
    Add(BPF_LD | BPF_DW, to, static_cast<Register>(BPF_PSEUDO_MAP_FD), 0, map);
    Add(0, r0, r0, 0, 0);
  }
  void Call(bpf_func_id helper) { Add(BPF_JMP | BPF_CALL, r0, r0, 0, helper); }
  void Exit() { Add(BPF_JMP | BPF_EXIT, r0, r0, 0, 0); }

  // Jumps forward, to where Land is called with what they return.
  using Jump = size_t;
  /// `test`: BPF_JEQ, BPF_JNE or BPF_JGT.
  Jump If(Register left, uint8_t test, int32_t right) {
    return Add(BPF_JMP | BPF_K | test, left, r0, 0, right);
  }
  Jump If(Register left, uint8_t test, Register right) {
    return Add(BPF_JMP | BPF_X | test, left, right, 0, 0);
  }
  Jump Go() { return Add(BPF_JMP | BPF_JA, r0, r0, 0, 0); }
  void Land(Jump jump) { code_[jump].off = static_cast<int16_t>(code_.size() - jump - 1); }

  const std::vector<bpf_insn>& code() const { return code_; }

 private:
  void Compute(int operation, Register to, int32_t value) {
    Add(BPF_ALU64 | BPF_K | operation, to, r0, 0, value);
  }
  size_t Add(int code, Register to, Register from, int16_t offset, int32_t immediate) {
    bpf_insn instruction{};
    instruction.code = static_cast<uint8_t>(code);
    instruction.dst_reg = to & 0xf;
    instruction.src_reg = from & 0xf;
    instruction.off = offset;
    instruction.imm = immediate;
    code_.push_back(instruction);
    return code_.size() - 1;
  }

  std::vector<bpf_insn> code_;
};

/// The program: drops a packet whose key is in `map`. Values of the packet are compared in network
/// byte order. The key lies at fp - 20.
std::vector<bpf_insn> AssembleDrop(int map) {
  using enum Assembler::Register;
  constexpr int16_t kKey = -20;
  constexpr int16_t kAddress = kKey + 4;
  constexpr size_t kEthernet = sizeof(ethhdr);
  const int32_t roce_port = htons(wire::kRoceUdpPort);
  Assembler code;
  std::vector<Assembler::Jump> leave;
  const auto unless = [&](auto left, uint8_t not_equal, auto right) {
    leave.push_back(code.If(left, not_equal, right));
  };
  code.Load(BPF_W, r2, r1, offsetof(__sk_buff, pkt_type));
  unless(r2, BPF_JNE, PACKET_HOST);
  code.Load(BPF_W, r2, r1, offsetof(__sk_buff, vlan_present));
  unless(r2, BPF_JNE, 0);
  code.Load(BPF_W, r2, r1, offsetof(__sk_buff, ifindex));
  code.Store(BPF_W, fp, kKey, r2);
  code.Load(BPF_W, r6, r1, offsetof(__sk_buff, data));
  code.Load(BPF_W, r7, r1, offsetof(__sk_buff, data_end));
  code.Load(BPF_W, r2, r1, offsetof(__sk_buff, protocol));
  const Assembler::Jump to_ipv6 = code.If(r2, BPF_JEQ, int32_t{htons(ETH_P_IPV6)});
  unless(r2, BPF_JNE, int32_t{htons(ETH_P_IP)});

  constexpr size_t kIpv4Bytes = 20;
  code.Move(r3, r6);
  code.AddTo(r3, kEthernet + kIpv4Bytes + 4);
  unless(r3, BPF_JGT, r7);
  code.Load(BPF_B, r2, r6, kEthernet);
  unless(r2, BPF_JNE, 0x45);  // No options.
  code.Load(BPF_H, r2, r6, kEthernet + 6);
  code.And(r2, htons(0x3fff));  // A fragment, first or not.
  unless(r2, BPF_JNE, 0);
  code.Load(BPF_B, r2, r6, kEthernet + 9);
  unless(r2, BPF_JNE, IPPROTO_UDP);
  code.Load(BPF_H, r2, r6, kEthernet + kIpv4Bytes + 2);
  unless(r2, BPF_JNE, roce_port);
  code.Set(r2, 0);
  code.Store(BPF_DW, fp, kAddress, r2);
  code.Set(r2, static_cast<int32_t>(htonl(0xffff)));
  code.Store(BPF_W, fp, kAddress + 8, r2);
  code.Load(BPF_W, r2, r6, kEthernet + 16);
  code.Store(BPF_W, fp, kAddress + 12, r2);
  const Assembler::Jump to_lookup = code.Go();

  code.Land(to_ipv6);
  constexpr size_t kIpv6Bytes = 40;
  code.Move(r3, r6);
  code.AddTo(r3, kEthernet + kIpv6Bytes + 4);
  unless(r3, BPF_JGT, r7);
  code.Load(BPF_B, r2, r6, kEthernet + 6);
  unless(r2, BPF_JNE, IPPROTO_UDP);
  code.Load(BPF_H, r2, r6, kEthernet + kIpv6Bytes + 2);
  unless(r2, BPF_JNE, roce_port);
  for (int16_t part = 0; part < 16; part += 4) {
    code.Load(BPF_W, r2, r6, kEthernet + 24 + static_cast<size_t>(part));
    code.Store(BPF_W, fp, static_cast<int16_t>(kAddress + part), r2);
  }

  code.Land(to_lookup);
  code.LoadMap(r1, map);
  code.Move(r2, fp);
  code.AddTo(r2, kKey);
  code.Call(BPF_FUNC_map_lookup_elem);
  unless(r0, BPF_JEQ, 0);
  code.Set(r0, kTcxDrop);
  code.Exit();
  for (const Assembler::Jump jump : leave) code.Land(jump);
  code.Set(r0, kTcxNext);
  code.Exit();
  return code.code();
}

}  // namespace

/// The program and its map, which all interfaces share: it is loaded while the daemon has CAP_BPF.
class IngressDrop::Program {
 public:
  static std::optional<Program> Load() {
    bpf_attr map{};
    map.map_type = BPF_MAP_TYPE_HASH;
    map.key_size = sizeof(Key);
    map.value_size = 1;
    map.max_entries = kMostAddresses;
    map.map_flags = BPF_F_NO_PREALLOC;
    Program loaded;
    loaded.map_ = Bpf(BPF_MAP_CREATE, map);
    if (!loaded.map_) return std::nullopt;
    const std::vector<bpf_insn> code = AssembleDrop(loaded.map_.get());
    bpf_attr program{};
    program.prog_type = BPF_PROG_TYPE_SCHED_CLS;
    program.expected_attach_type = static_cast<bpf_attach_type>(kTcxIngress);
    program.insns = AddressOf(code.data());
    program.insn_cnt = static_cast<uint32_t>(code.size());
    program.license = AddressOf("Apache-2.0");
    loaded.code_ = Bpf(BPF_PROG_LOAD, program);
    if (!loaded.code_) return std::nullopt;
    return loaded;
  }

  /// The link ends with its fd.
  Fd Attach(int ifindex) const {
    bpf_attr link{};
    link.link_create.prog_fd = static_cast<uint32_t>(code_.get());
    link.link_create.target_ifindex = static_cast<uint32_t>(ifindex);
    link.link_create.attach_type = kTcxIngress;
    return Bpf(BPF_LINK_CREATE, link);
  }
  void Put(const Key& key) const {
    const uint8_t value = 0;
    bpf_attr element{};
    element.map_fd = static_cast<uint32_t>(map_.get());
    element.key = AddressOf(&key);
    element.value = AddressOf(&value);
    Tell(BPF_MAP_UPDATE_ELEM, element);
  }
  void Remove(const Key& key) const {
    bpf_attr element{};
    element.map_fd = static_cast<uint32_t>(map_.get());
    element.key = AddressOf(&key);
    Tell(BPF_MAP_DELETE_ELEM, element);
  }

 private:
  Fd map_;
  Fd code_;
};

const IngressDrop::Program* IngressDrop::ProgramOfProcess() {
  static const std::optional<Program> program = Program::Load();
  return program ? &*program : nullptr;
}

void IngressDrop::Set(int ifindex, std::span<const Gid> addresses) {
  if (ifindex != ifindex_) Clear();
  const Program* const program = ProgramOfProcess();
  if (program == nullptr) return;
  if (!link_) link_ = program->Attach(ifindex);
  if (!link_) return;
  ifindex_ = ifindex;
  std::vector<Key> keys;
  for (const Gid& address : addresses) {
    keys.push_back({.ifindex = ifindex, .address = address.bytes});
  }
  std::ranges::sort(keys);
  std::vector<Key> gone;
  std::vector<Key> added;
  std::ranges::set_difference(keys_, keys, std::back_inserter(gone));
  std::ranges::set_difference(keys, keys_, std::back_inserter(added));
  for (const Key& key : gone) program->Remove(key);
  for (const Key& key : added) program->Put(key);
  keys_ = std::move(keys);
}

void IngressDrop::Clear() {
  link_.Reset();
  ifindex_ = 0;
  for (const Key& key : std::exchange(keys_, {})) ProgramOfProcess()->Remove(key);
}

}  // namespace uroce::drivers
