// SPDX-License-Identifier: Apache-2.0
// Datagrams on the loopback interface of a network for the test alone: which of them reach a UDP
// socket.
#include "drivers/kernel/ingress_drop.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/drivers/kernel/own_network.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kRocePort = 4791;
constexpr int kLongMs = 5000;
constexpr int kShortMs = 20;  ///< The loopback interface delivers before sendto returns.

/// Whether the kernel lets this thread attach a program of two instructions to `ifindex`.
bool KernelTakesPrograms(int ifindex) {
  constexpr auto kTcxIngress = static_cast<bpf_attach_type>(46);
  bpf_insn code[2] = {};
  code[0].code = BPF_ALU64 | BPF_MOV | BPF_K;
  code[0].imm = -1;
  code[1].code = BPF_JMP | BPF_EXIT;
  bpf_attr program{};
  program.prog_type = BPF_PROG_TYPE_SCHED_CLS;
  program.expected_attach_type = kTcxIngress;
  program.insns = reinterpret_cast<uintptr_t>(code);
  program.insn_cnt = 2;
  program.license = reinterpret_cast<uintptr_t>("Apache-2.0");
  const Fd loaded(static_cast<int>(syscall(SYS_bpf, BPF_PROG_LOAD, &program, sizeof program)));
  if (!loaded) return false;
  bpf_attr link{};
  link.link_create.prog_fd = static_cast<uint32_t>(loaded.get());
  link.link_create.target_ifindex = static_cast<uint32_t>(ifindex);
  link.link_create.attach_type = kTcxIngress;
  return static_cast<bool>(
      Fd(static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &link, sizeof link))));
}

Gid GidOf(const char* address) {
  Gid gid;
  if (std::strchr(address, ':') != nullptr) {
    inet_pton(AF_INET6, address, gid.bytes.data());
    return gid;
  }
  gid.bytes[10] = gid.bytes[11] = 0xff;
  inet_pton(AF_INET, address, gid.bytes.data() + 12);
  return gid;
}

class IngressDropTest : public testing::Test {
 protected:
  void SetUp() override {
    loopback_ = static_cast<int>(if_nametoindex("lo"));
    if (!KernelTakesPrograms(loopback_)) GTEST_SKIP() << "needs CAP_BPF and Linux 6.6";
  }

  void Drop(IngressDrop& drop, const std::vector<Gid>& addresses) {
    drop.Set(loopback_, addresses);
  }

  /// Whether a datagram reaches the socket of its address.
  bool Arrives(const char* address, uint16_t port = kRocePort, size_t bytes = 100,
               bool has_options = false) {
    const bool is_ipv6 = std::strchr(address, ':') != nullptr;
    sockaddr_storage at{};
    if (is_ipv6) {
      auto& to = reinterpret_cast<sockaddr_in6&>(at);
      to.sin6_family = AF_INET6;
      to.sin6_port = htons(port);
      inet_pton(AF_INET6, address, &to.sin6_addr);
    } else {
      auto& to = reinterpret_cast<sockaddr_in&>(at);
      to.sin_family = AF_INET;
      to.sin_port = htons(port);
      inet_pton(AF_INET, address, &to.sin_addr);
    }
    const Fd receiver(socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const Fd sender(socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto* const place = reinterpret_cast<const sockaddr*>(&at);
    EXPECT_EQ(bind(receiver.get(), place, sizeof at), 0) << strerror(errno);
    if (has_options) {
      // Router alert, with RoCE's port where a packet without options has its own.
      const uint8_t options[4] = {0x94, 4, kRocePort >> 8, kRocePort & 0xff};
      EXPECT_EQ(setsockopt(sender.get(), IPPROTO_IP, IP_OPTIONS, options, sizeof options), 0);
    }
    const std::string payload(bytes, 'x');
    EXPECT_EQ(sendto(sender.get(), payload.data(), bytes, 0, place, sizeof at),
              static_cast<ssize_t>(bytes))
        << strerror(errno);
    pollfd wait{.fd = receiver.get(), .events = POLLIN, .revents = 0};
    return poll(&wait, 1, expected_to_arrive_ ? kLongMs : kShortMs) == 1;
  }
  void ExpectArrival(const char* address, uint16_t port = kRocePort, size_t bytes = 100,
                     bool has_options = false) {
    expected_to_arrive_ = true;
    EXPECT_TRUE(Arrives(address, port, bytes, has_options)) << address << ' ' << port;
  }
  void ExpectDrop(const char* address) {
    expected_to_arrive_ = false;
    EXPECT_FALSE(Arrives(address)) << address;
  }

  const OwnNetwork network_;
  int loopback_ = 0;

 private:
  bool expected_to_arrive_ = true;
};

TEST_F(IngressDropTest, RocePacketsOfItsAddressesAlone) {
  ExpectArrival("127.0.0.1");
  ExpectArrival("::1");
  IngressDrop drop;
  Drop(drop, {GidOf("127.0.0.1"), GidOf("::1")});
  EXPECT_TRUE(drop.is_active());
  ExpectDrop("127.0.0.1");
  ExpectDrop("::1");
  ExpectArrival("127.0.0.2");
  ExpectArrival("127.0.0.1", kRocePort + 1);
  ExpectArrival("::1", kRocePort + 1);
}

TEST_F(IngressDropTest, AddressesChange) {
  IngressDrop drop;
  Drop(drop, {GidOf("127.0.0.1"), GidOf("127.0.0.2")});
  ExpectDrop("127.0.0.2");
  ExpectArrival("127.0.0.3");
  Drop(drop, {GidOf("127.0.0.3"), GidOf("127.0.0.2")});
  ExpectArrival("127.0.0.1");
  ExpectDrop("127.0.0.2");
  ExpectDrop("127.0.0.3");
  Drop(drop, {});
  ExpectArrival("127.0.0.3");
}

TEST_F(IngressDropTest, EndsWithTheObject) {
  {
    IngressDrop drop;
    Drop(drop, {GidOf("127.0.0.1")});
    ExpectDrop("127.0.0.1");
    drop.Clear();
    EXPECT_FALSE(drop.is_active());
    ExpectArrival("127.0.0.1");
    Drop(drop, {GidOf("127.0.0.1")});
    ExpectDrop("127.0.0.1");
  }
  ExpectArrival("127.0.0.1");
  IngressDrop other;
  Drop(other, {GidOf("127.0.0.2")});
  ExpectArrival("127.0.0.1");  // The key of the former object is gone too.
}

// The kernel's IP puts fragments together and reads options: such packets go on.
TEST_F(IngressDropTest, FragmentsAndOptionsGoOn) {
  const Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof("lo"));
  request.ifr_mtu = 1500;
  ASSERT_EQ(ioctl(any.get(), SIOCSIFMTU, &request), 0);
  IngressDrop drop;
  Drop(drop, {GidOf("127.0.0.1"), GidOf("::1")});
  ExpectArrival("127.0.0.1", kRocePort, 5000);
  ExpectArrival("::1", kRocePort, 5000);
  ExpectArrival("127.0.0.1", kRocePort, 100, /*has_options=*/true);
  ExpectArrival("127.0.0.1", kRocePort + 1, 100, /*has_options=*/true);
  ExpectDrop("127.0.0.1");
}

TEST_F(IngressDropTest, PacketSocketsGetThemBefore) {
  IngressDrop drop;
  Drop(drop, {GidOf("127.0.0.1")});
  const Fd tap(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = loopback_;
  ASSERT_EQ(bind(tap.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  const int on = 1;
  ASSERT_EQ(setsockopt(tap.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on), 0);
  ExpectDrop("127.0.0.1");
  pollfd wait{.fd = tap.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wait, 1, kLongMs), 1);
}

// As two NICs of uroce have on one interface.
TEST_F(IngressDropTest, TheSecondOfAnInterfaceTakesOver) {
  std::optional<IngressDrop> first(std::in_place);
  IngressDrop second;
  Drop(*first, {GidOf("127.0.0.1")});
  Drop(second, {GidOf("127.0.0.1")});
  ExpectDrop("127.0.0.1");
  first.reset();
  Drop(second, {GidOf("127.0.0.1")});
  EXPECT_TRUE(second.is_active());
  ExpectDrop("127.0.0.1");
}

TEST_F(IngressDropTest, AnInterfaceThatIsGone) {
  IngressDrop drop;
  drop.Set(loopback_ + 1000, std::vector<Gid>{GidOf("127.0.0.1")});
  EXPECT_FALSE(drop.is_active());
  Drop(drop, {GidOf("127.0.0.1")});
  ExpectDrop("127.0.0.1");
}

}  // namespace
}  // namespace uroce::drivers
