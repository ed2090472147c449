// SPDX-License-Identifier: Apache-2.0
// Messages of the connection manager as values, the output and input of the MAD codec
// (IBTA vol. 1, 12.6; docs/protocol/cm.md, section 2).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::wire {

/// Communication ID: the number that one end gives to a communication. 0 means none.
class CommId {
 public:
  constexpr CommId() = default;
  constexpr explicit CommId(uint32_t value) : value_(value) {}
  constexpr uint32_t value() const { return value_; }
  friend constexpr auto operator<=>(CommId, CommId) = default;

 private:
  uint32_t value_ = 0;
};

/// Attribute IDs of the communication management class.
enum class CmAttribute : uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1a,
};
inline constexpr int kCmAttributeCount = 11;
/// The index of `attribute` in CmBody, from 0.
constexpr int IndexOf(CmAttribute attribute) {
  return static_cast<int>(attribute) - static_cast<int>(CmAttribute::kReq);
}

enum class CmTransport : uint8_t { kRc = 0, kUc = 1, kRd = 2, kExtended = 3 };

/// Which message an MRA or REJ is about.
enum class CmAbout : uint8_t { kReq = 0, kRep = 1, kOther = 2, kReserved = 3 };

/// Reasons of a REJ that the daemon sends or checks. Any value of 16 bits may arrive.
enum class RejReason : uint16_t {
  kNoQp = 1,
  kNoResources = 3,
  kTimeout = 4,  ///< The sender has given up; ARI is its CA GUID.
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidServiceId = 8,
  kInvalidTransport = 9,
  kStale = 10,
  kInvalidMtu = 26,
  kConsumerDefined = 28,
};

enum class AprStatus : uint8_t { kOk = 0, kInvalidCommId = 1, kUnsupported = 2, kRejected = 3 };

enum class SidrStatus : uint8_t {
  kValid = 0,
  kServiceNotSupported = 1,
  kRejected = 2,
  kNoQp = 3,
  kRedirect = 4,
  kVersionNotSupported = 5,
};

/// A path in a REQ: fields of a path record.
struct CmPath {
  uint16_t local_lid = 0;
  uint16_t remote_lid = 0;
  Gid local;
  Gid remote;
  uint32_t flow_label = 0;  ///< 20 bits.
  uint8_t packet_rate = 0;  ///< 6 bits; 0: the rate of the port.
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t sl = 0;  ///< 4 bits.
  bool subnet_local = false;
  uint8_t local_ack_timeout = 0;  ///< Code of 5 bits.
  friend bool operator==(const CmPath&, const CmPath&) = default;
};

/// Private data of a message: always the whole field, with zeros behind the sender's data.
template <size_t bytes>
using CmBytes = std::array<uint8_t, bytes>;
inline constexpr size_t kCmAriBytes = 72;

/// The extended transport of a REQ for XRC.
inline constexpr uint8_t kCmExtendedXrc = 1;

/// Request for communication.
struct CmReq {
  CommId local_comm_id;
  uint32_t vendor_id = 0;  ///< 24 bits, of the enhanced connection establishment (ECE).
  uint64_t service_id = 0;
  uint64_t local_ca_guid = 0;
  uint32_t local_qkey = 0;
  Qpn local_qpn;
  uint8_t responder_resources = 0;  ///< READs and atomics that the sender can serve at once.
  uint32_t local_eecn = 0;          ///< 24 bits.
  uint8_t initiator_depth = 0;      ///< READs and atomics that the sender will have outstanding.
  uint32_t remote_eecn = 0;         ///< 24 bits.
  uint8_t remote_cm_response_timeout = 0;  ///< Code of 5 bits: how long the receiver may take.
  CmTransport transport = CmTransport::kRc;
  bool end_to_end_flow_control = false;
  Psn starting_psn;                       ///< The first PSN that the sender expects to receive.
  uint8_t local_cm_response_timeout = 0;  ///< Code of 5 bits: how long the sender will take.
  uint8_t retry_count = 0;                ///< 3 bits.
  uint16_t pkey = 0xffff;
  uint8_t path_mtu = 0;  ///< Code of 4 bits, 1 (256 bytes) to 5 (4096).
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;  ///< 3 bits.
  uint8_t max_cm_retries = 0;   ///< 4 bits.
  bool srq = false;
  uint8_t extended_transport = 0;  ///< 3 bits; see kCmExtendedXrc.
  CmPath primary;
  CmPath alternate;  ///< Exists when its local LID is not 0.
  CmBytes<92> private_data{};
  friend bool operator==(const CmReq&, const CmReq&) = default;
};

/// Message receipt acknowledgement: the answer will take longer.
struct CmMra {
  CommId local_comm_id;
  CommId remote_comm_id;
  CmAbout about = CmAbout::kReq;
  uint8_t service_timeout = 0;  ///< Code of 5 bits.
  CmBytes<222> private_data{};
  friend bool operator==(const CmMra&, const CmMra&) = default;
};

/// Reject.
struct CmRej {
  CommId local_comm_id;  ///< 0 when the sender has none: a REQ refused at once.
  CommId remote_comm_id;
  CmAbout about = CmAbout::kReq;
  uint8_t info_bytes = 0;  ///< Valid bytes of `info`, 0 .. 72.
  RejReason reason = RejReason::kConsumerDefined;
  CmBytes<kCmAriBytes> info{};  ///< ARI: additional reject information.
  CmBytes<148> private_data{};
  friend bool operator==(const CmRej&, const CmRej&) = default;
};

/// Reply to a REQ.
struct CmRep {
  CommId local_comm_id;
  CommId remote_comm_id;
  uint32_t local_qkey = 0;
  Qpn local_qpn;
  uint32_t vendor_id = 0;   ///< 24 bits (ECE).
  uint32_t local_eecn = 0;  ///< 24 bits; with XRC the target's QPN.
  Psn starting_psn;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;   ///< Code of 5 bits.
  uint8_t failover_accepted = 0;  ///< 2 bits.
  bool end_to_end_flow_control = false;
  uint8_t rnr_retry_count = 0;  ///< 3 bits.
  bool srq = false;
  uint64_t local_ca_guid = 0;
  CmBytes<196> private_data{};
  friend bool operator==(const CmRep&, const CmRep&) = default;
};

/// Ready to use.
struct CmRtu {
  CommId local_comm_id;
  CommId remote_comm_id;
  CmBytes<224> private_data{};
  friend bool operator==(const CmRtu&, const CmRtu&) = default;
};

/// Request for communication release.
struct CmDreq {
  CommId local_comm_id;
  CommId remote_comm_id;
  Qpn remote_qpn;  ///< The receiver's QPN: checks that both ends mean the same connection.
  CmBytes<220> private_data{};
  friend bool operator==(const CmDreq&, const CmDreq&) = default;
};

/// Reply to a DREQ.
struct CmDrep {
  CommId local_comm_id;
  CommId remote_comm_id;
  CmBytes<224> private_data{};
  friend bool operator==(const CmDrep&, const CmDrep&) = default;
};

/// Service ID resolution request: asks for the UD queue pair of a service ID.
struct CmSidrReq {
  CommId request_id;
  uint16_t pkey = 0xffff;
  uint64_t service_id = 0;
  CmBytes<216> private_data{};
  friend bool operator==(const CmSidrReq&, const CmSidrReq&) = default;
};

/// Service ID resolution response.
struct CmSidrRep {
  CommId request_id;
  SidrStatus status = SidrStatus::kValid;
  uint8_t info_bytes = 0;
  uint32_t vendor_id = 0;  ///< 24 bits (ECE).
  Qpn qpn;
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  CmBytes<kCmAriBytes> info{};
  CmBytes<136> private_data{};
  friend bool operator==(const CmSidrRep&, const CmSidrRep&) = default;
};

/// Load alternate path. RoCE has no alternate paths: the path is not decoded.
struct CmLap {
  CommId local_comm_id;
  CommId remote_comm_id;
  Qpn remote_qpn;
  uint8_t remote_cm_response_timeout = 0;  ///< Code of 5 bits.
  CmBytes<48> alternate_path{};
  CmBytes<168> private_data{};
  friend bool operator==(const CmLap&, const CmLap&) = default;
};

/// Alternate path response.
struct CmApr {
  CommId local_comm_id;
  CommId remote_comm_id;
  uint8_t info_bytes = 0;
  AprStatus status = AprStatus::kOk;
  CmBytes<kCmAriBytes> info{};
  CmBytes<148> private_data{};
  friend bool operator==(const CmApr&, const CmApr&) = default;
};

/// In the order of the attribute IDs.
using CmBody = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep,
                            CmLap, CmApr>;
static_assert(std::variant_size_v<CmBody> == kCmAttributeCount);

/// One message with what its MAD header carries.
struct CmMessage {
  /// The same in all messages of one exchange. Not used for look-ups.
  uint64_t transaction_id = 0;
  /// Options of ECE in REQ, REP and SIDR_REP, else 0.
  uint32_t attribute_modifier = 0;
  CmBody body;

  CmAttribute attribute() const {
    return static_cast<CmAttribute>(static_cast<size_t>(CmAttribute::kReq) + body.index());
  }
  friend bool operator==(const CmMessage&, const CmMessage&) = default;
};

}  // namespace uroce::wire
