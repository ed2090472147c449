// SPDX-License-Identifier: Apache-2.0
// Random messages of the connection manager, each value within the bits of its field.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "pipeline/wire/cm/message.h"

namespace uroce::wire {

class CmValues {
 public:
  explicit CmValues(uint32_t seed) : random_(seed) {}

  /// `index` as of CmBody's alternatives.
  CmMessage Message(int index) {
    CmMessage message{.transaction_id = Bits(64),
                      .attribute_modifier = static_cast<uint32_t>(Bits(32)),
                      .body = {}};
    switch (static_cast<CmAttribute>(index + static_cast<int>(CmAttribute::kReq))) {
      case CmAttribute::kReq:
        message.body = Req();
        break;
      case CmAttribute::kMra:
        message.body = CmMra{Id(), Id(), About(), Byte(5), Data<222>()};
        break;
      case CmAttribute::kRej:
        message.body = CmRej{
            Id(),       Id(),       About(), static_cast<uint8_t>(Bits(64) % 73), RejReason{Half()},
            Data<72>(), Data<148>()};
        break;
      case CmAttribute::kRep:
        message.body = Rep();
        break;
      case CmAttribute::kRtu:
        message.body = CmRtu{Id(), Id(), Data<224>()};
        break;
      case CmAttribute::kDreq:
        message.body = CmDreq{Id(), Id(), Number(), Data<220>()};
        break;
      case CmAttribute::kDrep:
        message.body = CmDrep{Id(), Id(), Data<224>()};
        break;
      case CmAttribute::kSidrReq:
        message.body = CmSidrReq{Id(), Half(), Bits(64), Data<216>()};
        break;
      case CmAttribute::kSidrRep:
        message.body = SidrRep();
        break;
      case CmAttribute::kLap:
        message.body = CmLap{Id(), Id(), Number(), Byte(5), Data<48>(), Data<168>()};
        break;
      case CmAttribute::kApr:
        message.body =
            CmApr{Id(),       Id(),       static_cast<uint8_t>(Bits(64) % 73), AprStatus{Byte(8)},
                  Data<72>(), Data<148>()};
        break;
    }
    return message;
  }

  uint64_t Bits(int count) {
    const uint64_t word = uint64_t{random_()} << 32 | random_();
    return count == 64 ? word : word & ((uint64_t{1} << count) - 1);
  }

 private:
  uint8_t Byte(int bits) { return static_cast<uint8_t>(Bits(bits)); }
  uint16_t Half() { return static_cast<uint16_t>(Bits(16)); }
  uint32_t Word(int bits) { return static_cast<uint32_t>(Bits(bits)); }
  bool Flag() { return Bits(1) != 0; }
  CommId Id() { return CommId(Word(32) | 1); }
  Qpn Number() { return Qpn(Word(24)); }
  CmAbout About() { return static_cast<CmAbout>(Bits(2)); }
  template <size_t bytes>
  CmBytes<bytes> Data() {
    CmBytes<bytes> data;
    std::ranges::generate(data, [this] { return Byte(8); });
    return data;
  }
  CmPath Path() {
    return {Half(),  Half(),  {Data<16>()}, {Data<16>()}, Word(20), Byte(6),
            Byte(8), Byte(8), Byte(4),      Flag(),       Byte(5)};
  }
  CmReq Req() {
    return {Id(),    Word(24),      Bits(64), Bits(64), Word(32), Number(),
            Byte(8), Word(24),      Byte(8),  Word(24), Byte(5),  static_cast<CmTransport>(Bits(2)),
            Flag(),  Psn(Word(24)), Byte(5),  Byte(3),  Half(),   Byte(4),
            Flag(),  Byte(3),       Byte(4),  Flag(),   Byte(3),  Path(),
            Path(),  Data<92>()};
  }
  CmRep Rep() {
    return {Id(),    Id(),    Word(32), Number(), Word(24), Word(24), Psn(Word(24)), Byte(8),
            Byte(8), Byte(5), Byte(2),  Flag(),   Byte(3),  Flag(),   Bits(64),      Data<196>()};
  }
  CmSidrRep SidrRep() {
    return {Id(),
            SidrStatus{Byte(8)},
            static_cast<uint8_t>(Bits(64) % 73),
            Word(24),
            Number(),
            Bits(64),
            Word(32),
            Data<72>(),
            Data<136>()};
  }

  std::mt19937 random_;
};

}  // namespace uroce::wire
