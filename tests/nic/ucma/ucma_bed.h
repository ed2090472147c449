// SPDX-License-Identifier: Apache-2.0
// Programs that write commands to files of rdma_cm as librdmacm does, on hosts with the real
// service.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "nic/ucma/files.h"
#include "nic/ucma/responses.h"
#include "tests/nic/rdma_cm/service_bed.h"

namespace uroce::nic::ucma {

inline sockaddr_in Address(uint8_t last, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(last == 0 ? INADDR_ANY : 0x0a000000u + last);
  return address;
}
inline sockaddr_in6 Address6(uint8_t last, uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr.s6_addr[0] = 0xfd;
  address.sin6_addr.s6_addr[15] = last;
  return address;
}
template <typename Storage, typename From>
Storage Stored(const From& from) {
  Storage storage{};
  std::memcpy(&storage, &from, sizeof(from));
  return storage;
}

/// One program with its files, and what its sockets would say.
class UcmaProgram {
 public:
  explicit UcmaProgram(rdma_cm::Host& host)
      : files_(
            *host.service, {}, [](Qpn) { return true; }, [](uint32_t) { return kNodeGuid; },
            [this](FileId file) {
              ++signals_[file];
              return true;
            }) {}

  static constexpr uint64_t kNodeGuid = 0x0102030405060708;
  static constexpr FileId kFile{1};

  Files& files() { return files_; }
  void Reopen(FileId file) {
    files_.Close(file);
    signals_[file] = 0;
    files_.Open(file);
  }
  /// Signals that are there to be read.
  int signals(FileId file = kFile) { return signals_[file]; }

  Answer WriteBytes(const std::vector<uint8_t>& bytes, FileId file = kFile,
                    FileId old_file = kFile) {
    Answer answer = files_.Write(file, old_file, bytes);
    signals_[file] -= static_cast<int>(answer.signals);
    signals_[old_file] -= static_cast<int>(answer.old_signals);
    return answer;
  }
  template <typename Body>
  Answer Write(uint32_t number, const Body& body, size_t out = 0, FileId file = kFile,
               size_t in = sizeof(Body), const std::vector<uint8_t>& option = {}) {
    std::vector<uint8_t> bytes = BytesOf(number, body, out, in);
    bytes.insert(bytes.end(), option.begin(), option.end());
    return WriteBytes(bytes, file);
  }
  /// Takes an id of kFile to `file`.
  Answer Migrate(uint32_t id, FileId file) {
    rdma_ucm_migrate_id body{};
    body.id = id;
    return WriteBytes(BytesOf(RDMA_USER_CM_CMD_MIGRATE_ID, body, sizeof(rdma_ucm_migrate_resp)),
                      file, kFile);
  }
  /// As Write, of a command that must succeed and answer with `Response`.
  template <typename Response, typename Body>
  Response Ask(uint32_t number, const Body& body, FileId file = kFile) {
    const Answer answer = Write(number, body, sizeof(Response), file);
    EXPECT_EQ(answer.error, 0);
    EXPECT_EQ(answer.response.size(), sizeof(Response));
    Response response{};
    if (answer.response.size() == sizeof(Response)) {
      std::memcpy(&response, answer.response.data(), sizeof(response));
    }
    return response;
  }

  uint32_t CreateId(uint64_t uid, uint16_t space = RDMA_PS_TCP, FileId file = kFile) {
    rdma_ucm_create_id body{};
    body.uid = uid;
    body.ps = space;
    body.qp_type = IBV_QPT_RC;
    return Ask<rdma_ucm_create_id_resp>(RDMA_USER_CM_CMD_CREATE_ID, body, file).id;
  }
  /// events_reported.
  uint32_t DestroyId(uint32_t id, FileId file = kFile) {
    rdma_ucm_destroy_id body{};
    body.id = id;
    return Ask<rdma_ucm_destroy_id_resp>(RDMA_USER_CM_CMD_DESTROY_ID, body, file).events_reported;
  }
  template <typename From>
  int Bind(uint32_t id, const From& address) {
    rdma_ucm_bind body{};
    body.id = id;
    body.addr_size = sizeof(address);
    body.addr = Stored<__kernel_sockaddr_storage>(address);
    return Write(RDMA_USER_CM_CMD_BIND, body).error;
  }
  int Listen(uint32_t id) { return Write(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 8}).error; }
  template <typename To>
  int Resolve(uint32_t id, const To& destination) {
    rdma_ucm_resolve_addr body{};
    body.id = id;
    body.timeout_ms = 1000;
    body.dst_size = sizeof(destination);
    body.dst_addr = Stored<__kernel_sockaddr_storage>(destination);
    return Write(RDMA_USER_CM_CMD_RESOLVE_ADDR, body).error;
  }
  int ResolveRoute(uint32_t id) {
    return Write(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 1000}).error;
  }
  int Connect(uint32_t id, const char* text = "") {
    rdma_ucm_connect body{};
    body.id = id;
    body.conn_param = Parameters(text);
    return Write(RDMA_USER_CM_CMD_CONNECT, body).error;
  }
  int Accept(uint32_t id, uint64_t uid, const char* text = "") {
    rdma_ucm_accept body{};
    body.id = id;
    body.uid = uid;
    body.conn_param = Parameters(text);
    return Write(RDMA_USER_CM_CMD_ACCEPT, body).error;
  }
  /// After CONNECT_RESPONSE.
  int Establish(uint32_t id) {
    rdma_ucm_accept body{};
    body.id = id;
    return Write(RDMA_USER_CM_CMD_ACCEPT, body).error;
  }
  int Disconnect(uint32_t id) {
    return Write(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id}).error;
  }
  rdma_ucm_event_resp GetEvent(FileId file = kFile) {
    return Ask<rdma_ucm_event_resp>(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, file);
  }
  /// The next event, which has to be of this kind.
  rdma_ucm_event_resp Take(rdma_cm::EventKind kind, FileId file = kFile) {
    const rdma_ucm_event_resp event = GetEvent(file);
    EXPECT_EQ(event.event, static_cast<uint32_t>(kind));
    return event;
  }
  bool HasEvent(FileId file = kFile) { return signals(file) != 0; }
  template <typename Response>
  Response Query(uint32_t id, uint32_t option) {
    rdma_ucm_query body{};
    body.id = id;
    body.option = option;
    return Ask<Response>(RDMA_USER_CM_CMD_QUERY, body);
  }

 private:
  /// A command as librdmacm writes it.
  template <typename Body>
  static std::vector<uint8_t> BytesOf(uint32_t number, const Body& body, size_t out,
                                      size_t in = sizeof(Body)) {
    const rdma_ucm_cmd_hdr header{number, static_cast<uint16_t>(in), static_cast<uint16_t>(out)};
    std::vector<uint8_t> bytes(sizeof(header) + in);
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), &body, std::min(in, sizeof(body)));
    return bytes;
  }

  /// Of a queue pair that no other connection has had: the first is 0x123.
  rdma_ucm_conn_param Parameters(const char* text) {
    rdma_ucm_conn_param parameters{};
    parameters.valid = 1;
    parameters.qp_num = next_qpn_++;
    parameters.responder_resources = parameters.initiator_depth = 4;
    parameters.retry_count = parameters.rnr_retry_count = 7;
    parameters.private_data_len = static_cast<uint8_t>(std::strlen(text));
    std::memcpy(parameters.private_data, text, std::strlen(text));
    return parameters;
  }

  uint32_t next_qpn_ = 0x123;
  std::map<FileId, int> signals_;
  Files files_;
};

/// A client on the first host and a server on the second, with a file each.
class UcmaTest : public testing::Test {
 protected:
  static constexpr uint16_t kPort = 7471;
  using Kind = rdma_cm::EventKind;

  UcmaTest() {
    client.files().Open(UcmaProgram::kFile);
    server.files().Open(UcmaProgram::kFile);
  }

  void Run() { network.Run(); }
  uint32_t Listen(uint64_t uid, uint16_t space = RDMA_PS_TCP) {
    const uint32_t id = server.CreateId(uid, space);
    EXPECT_EQ(server.Bind(id, Address(0, kPort)), 0);
    EXPECT_EQ(server.Listen(id), 0);
    return id;
  }
  /// An id of the client whose route to the server is known.
  uint32_t Resolved(uint64_t uid, uint16_t space = RDMA_PS_TCP) {
    const uint32_t id = client.CreateId(uid, space);
    EXPECT_EQ(client.Resolve(id, Address(2, kPort)), 0);
    Run();
    client.Take(Kind::kAddressResolved);
    EXPECT_EQ(client.ResolveRoute(id), 0);
    Run();
    client.Take(Kind::kRouteResolved);
    return id;
  }
  struct Pair {
    uint32_t active;
    uint32_t passive;
    uint32_t listener;
  };
  /// Connected ids with the uids 1 (active), 2 (passive) and 3 (listener).
  Pair Connected() {
    Pair pair{.listener = Listen(3)};
    pair.active = Resolved(1);
    EXPECT_EQ(client.Connect(pair.active), 0);
    Run();
    pair.passive = server.Take(Kind::kConnectRequest).id;
    EXPECT_EQ(server.Accept(pair.passive, 2), 0);
    Run();
    client.Take(Kind::kConnectResponse);
    EXPECT_EQ(client.Establish(pair.active), 0);
    Run();
    server.Take(Kind::kEstablished);
    return pair;
  }

  rdma_cm::Network network;
  UcmaProgram client{network[0]};
  UcmaProgram server{network[1]};
};

}  // namespace uroce::nic::ucma
