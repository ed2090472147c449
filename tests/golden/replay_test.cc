// SPDX-License-Identifier: Apache-2.0
// Golden captures replayed. Our responder, fed with the requests of Linux's rdma_rxe in a world
// like that of theirs, sends what rxe sent; our requester, fed with rxe's responses, sends new
// requests as rxe did and completes as rxe did. With selective repeat offered nothing is different.
//
// Where rxe or the standard leave freedom, or rxe errs, the difference is named here:
//  - Timing: rxe's resends and ours come when they come, so resends are not compared.
//  - rxe acknowledges each duplicate, we those that ask for it; the same ACK twice in a row is one.
//  - A READ replayed from its middle goes on with MIDDLE and LAST at rxe, with FIRST and ONLY here.
//  - rxe sends a sequence NAK behind an RNR NAK, which we do not.
//  - An ACK of the future (linux-rxe-4-loss, case 24) completes rxe's work, and not ours.
//  - rxe says 0x63 to a message that is longer than its receive, which is 0x61
//    (docs/protocol/transport.md, section 4.1).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/to_string.h"
#include "tests/golden/conversation.h"

namespace uroce::transport {
namespace {

using wire::Opcode;
using Texts = std::vector<std::string>;

constexpr uint32_t kMtu = 1024;

/// What all connections of the captures have, unless their packets tell otherwise.
constexpr QueuePairAttributes kAttributes{.remote_write = true,
                                          .remote_read = true,
                                          .remote_atomic = true,
                                          .path_mtu_bytes = kMtu,
                                          .max_rd_atomic = 16,
                                          .max_dest_rd_atomic = 16,
                                          .retry_count = 7,
                                          .rnr_retry = 7};

/// What the answers to a request do not tell of the responder's world.
enum class World : uint8_t { kUsual, kShortReceive, kBadReceive, kBadInvalidate, kDead };

struct Odd {
  const char* capture;
  int first_frame;
  int last_frame;
  World world;
};

constexpr Odd kOdd[] = {
    {"linux-rxe-3", 36, 36, World::kShortReceive},
    {"linux-rxe-3", 52, 52, World::kBadReceive},
    {"linux-rxe-3", 54, 54, World::kBadInvalidate},
    {"linux-rxe-3", 56, 58, World::kDead},         // A peer that is not there.
    {"linux-rxe-3", 71, 77, World::kDead},         // Its CQ has overflown.
    {"linux-rxe-4-loss", 172, 172, World::kDead},  // The real ACK was lost, and one made up.
};

World WorldOf(const std::string& capture, int frame) {
  const auto* const found = std::ranges::find_if(kOdd, [&](const Odd& odd) {
    return capture == odd.capture && frame >= odd.first_frame && frame <= odd.last_frame;
  });
  return found == std::end(kOdd) ? World::kUsual : found->world;
}

class Replay {
 public:
  Replay(const std::string& capture, const Conversation& conversation, bool selective)
      : capture_(capture),
        lines_(conversation.lines),
        qp_({.signal_all = true, .max_send_works = 64, .selective_repeat = selective}) {}

 protected:
  static constexpr Nanos kStep{1'000'000'000};  ///< Longer than any RNR wait.

  void Connect(const QueuePairAttributes& attributes) {
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      qp_.Modify(state, attributes);
    }
  }
  bool IsDelivered(const Line& line) const {
    return line.delivered && WorldOf(capture_, line.frame) != World::kDead;
  }
  static bool Says(const wire::Packet& packet, uint8_t syndrome) {
    return packet.header.opcode == Opcode::kAcknowledge && packet.header.aeth.syndrome == syndrome;
  }
  static bool IsRnrNak(const wire::Packet& packet) {
    return packet.header.opcode == Opcode::kAcknowledge &&
           (packet.header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeRnrNak;
  }

  std::string capture_;
  const std::vector<Line>& lines_;
  RcQueuePair qp_;
  Nanos now_;
};

// ---- our responder ----

class ResponderReplay : public Replay {
 public:
  using Replay::Replay;

  void Run() {
    Connect(Attributes());
    for (size_t i = 0; i < lines_.size(); ++i) Take(i);
  }
  /// What rxe and we have answered, but for the differences that are named above.
  Texts Theirs() const { return Normal(theirs_); }
  Texts Ours() const { return Normal(ours_); }

 private:
  /// What the connection does not allow, its refusals tell.
  QueuePairAttributes Attributes() const {
    QueuePairAttributes attributes = kAttributes;
    const auto first = std::ranges::find_if(lines_, [](const Line& l) { return !l.is_response(); });
    if (first != lines_.end()) attributes.rq_psn = first->packet.header.psn;
    for (const Line& line : lines_) {
      const wire::Packet& packet = line.packet;
      if (IsRnrNak(packet)) {
        attributes.min_rnr_timer = packet.header.aeth.syndrome & wire::kSyndromeValueMask;
      }
      if (!Says(packet, wire::kNakInvalidRequest)) continue;
      attributes.remote_write = false;
      attributes.max_dest_rd_atomic = 0;
    }
    return attributes;
  }

  void Take(size_t index) {
    const Line& line = lines_[index];
    if (line.is_response()) {
      if (!IsExtra(index)) theirs_.push_back(line.packet);
      if (too_long_) theirs_.back().header.aeth.syndrome = wire::kNakInvalidRequest;
      return;
    }
    too_long_ = WorldOf(capture_, line.frame) == World::kShortReceive;
    if (!IsDelivered(line)) return;
    Receive(line, AnswerTo(index));
    TxPacket packet;
    while (qp_.PollPacket(now_, packet)) {
      wire::Packet sent;
      sent.header = packet.header;
      sent.payload = std::span(kBytes).first(packet.payload_bytes());
      ours_.push_back(sent);
    }
  }

  /// A response that we do not give: a sequence NAK behind an RNR NAK, an ACK that nothing asked
  /// for.
  bool IsExtra(size_t index) const {
    const wire::Packet& packet = lines_[index].packet;
    if (Says(packet, wire::kNakSequence)) {
      for (size_t i = index; i-- != 0;) {
        if (lines_[i].is_response()) return IsRnrNak(lines_[i].packet);
      }
      return false;
    }
    return Says(packet, wire::kCreditsUnlimited) &&
           std::ranges::none_of(lines_, [&](const Line& line) {
             return !line.is_response() && IsDelivered(line) && line.packet.header.ack_request &&
                    line.packet.header.psn == packet.header.psn;
           });
  }

  /// The next response that bears the PSN of the request at `index`, or null.
  const wire::Packet* AnswerTo(size_t index) const {
    for (size_t i = index + 1; i < lines_.size(); ++i) {
      const wire::Packet& packet = lines_[i].packet;
      if (lines_[i].is_response() && packet.header.psn == lines_[index].packet.header.psn) {
        return &packet;
      }
    }
    return nullptr;
  }

  void Receive(const Line& line, const wire::Packet* answer) {
    const World world = WorldOf(capture_, line.frame);
    const bool refused = answer != nullptr && IsRnrNak(*answer);
    if (qp_.NeedsReceive(line.packet.header) && !refused) {
      qp_.PostReceive({.length_bytes = world == World::kShortReceive ? 8u : 8192u});
    }
    Effect effect;
    static_cast<void>(qp_.OnPacket(line.packet, now_, effect));
    if (effect.kind == Effect::Kind::kNone) return;
    EffectOutcome outcome = EffectOutcome::kDone;
    if (answer != nullptr && Says(*answer, wire::kNakRemoteAccess)) {
      outcome = EffectOutcome::kRemoteAccess;
    }
    if (world == World::kBadReceive) outcome = EffectOutcome::kLocalProtection;
    if (world == World::kBadInvalidate) outcome = EffectOutcome::kInvalidateFailed;
    qp_.OnEffectDone(outcome, answer == nullptr ? 0 : answer->header.atomic_original, now_);
    Completion completion;
    while (qp_.PollCompletion(completion)) {
    }
  }

  static Texts Normal(const std::vector<wire::Packet>& packets) {
    Texts texts;
    std::set<uint32_t> answered;  // PSNs of READ responses.
    for (const wire::Packet& packet : packets) {
      std::string text = wire::ToString(packet);
      const bool read = text.starts_with("READ");
      if (read && !answered.insert(packet.header.psn.value()).second) {
        text = "READ_AGAIN psn=" + std::to_string(packet.header.psn.value()) +
               " len=" + std::to_string(packet.payload.size());
      }
      if (texts.empty() || texts.back() != text) texts.push_back(text);
    }
    return texts;
  }

  static constexpr std::array<uint8_t, kMtu> kBytes{};
  bool too_long_ = false;
  std::vector<wire::Packet> theirs_;
  std::vector<wire::Packet> ours_;
};

// ---- our requester ----

class RequesterReplay : public Replay {
 public:
  using Replay::Replay;

  void Run() {
    QueuePairAttributes attributes = kAttributes;
    if (lines_.front().is_response()) return;
    next_ = attributes.sq_psn = lines_.front().packet.header.psn;
    // A run of RNR NAKs that no success follows has spent the retries.
    const auto naks =
        std::ranges::count_if(lines_, [](const Line& l) { return IsRnrNak(l.packet); });
    if (IsRnrNak(lines_.back().packet)) attributes.rnr_retry = static_cast<uint8_t>(naks - 1);
    Connect(attributes);
    for (size_t i = 0; i < lines_.size(); ++i) {
      now_ = now_ + kStep;
      qp_.OnDeadline(now_);
      Send();
      lines_[i].is_response() ? Receive(lines_[i]) : Request(i);
      Send();
    }
    Completion completion;
    while (qp_.PollCompletion(completion)) statuses_.push_back(completion.status);
  }
  const Texts& theirs() const { return theirs_; }
  const Texts& ours() const { return ours_; }
  const std::vector<WcStatus>& statuses() const { return statuses_; }

  /// How rxe's works ended, as far as its packets tell.
  std::vector<WcStatus> Expected() const {
    std::vector<WcStatus> statuses(posted_, WcStatus::kSuccess);
    if (unanswered_) statuses.resize(posted_ - unanswered_);
    if (failure_ != WcStatus::kSuccess) statuses.back() = failure_;
    return statuses;
  }

 private:
  void Request(size_t index) {
    const Line& line = lines_[index];
    if (line.packet.header.psn != next_) return;  // Sent again.
    theirs_.push_back(wire::ToString(line.packet));
    const RequestShape shape = ShapeOf(line.packet.header.opcode);
    if (shape.first) Post(index);
    next_ = next_ + (shape.kind == RequestShape::Kind::kRead
                         ? PathMtu(kMtu).PacketsOf(line.packet.header.reth.length_bytes)
                         : 1);
    Send();
  }

  /// The work that begins at `index`: its first packets follow, each in its turn.
  void Post(size_t index) {
    SendWork work;
    work.slot = posted_++;
    wire::Psn psn = lines_[index].packet.header.psn;
    for (size_t i = index; i < lines_.size(); ++i) {
      const wire::TransportHeader& header = lines_[i].packet.header;
      if (lines_[i].is_response() || header.psn != psn) continue;
      psn = psn + 1;
      const RequestShape shape = ShapeOf(header.opcode);
      if (shape.first) SetFirst(header, work);
      work.length_bytes += static_cast<uint32_t>(lines_[i].packet.payload.size());
      if (!shape.last) continue;
      SetLast(header, shape, work);
      break;
    }
    EXPECT_EQ(qp_.Post(work), PostResult::kPosted);
    unanswered_ += WorldOf(capture_, lines_[index].frame) == World::kDead;
  }
  static void SetFirst(const wire::TransportHeader& header, SendWork& work) {
    const bool atomic = ShapeOf(header.opcode).kind == RequestShape::Kind::kAtomic;
    work.rkey = atomic ? header.atomic.rkey : header.reth.rkey;
    work.remote_va = atomic ? header.atomic.va : header.reth.va;
    if (header.opcode == Opcode::kReadRequest) work.length_bytes = header.reth.length_bytes;
    if (atomic) work.length_bytes = 8;
    const bool swaps = header.opcode == Opcode::kCompareSwap;
    work.compare_add = swaps ? header.atomic.compare : header.atomic.swap_add;
    work.swap = header.atomic.swap_add;
  }
  static void SetLast(const wire::TransportHeader& header, const RequestShape& shape,
                      SendWork& work) {
    work.solicited = header.solicited;
    work.immediate = header.immediate;
    work.invalidate_rkey = header.invalidate_rkey;
    switch (shape.kind) {
      case RequestShape::Kind::kWrite:
        work.opcode = shape.immediate ? WorkOpcode::kWriteWithImm : WorkOpcode::kWrite;
        break;
      case RequestShape::Kind::kRead:
        work.opcode = WorkOpcode::kRead;
        break;
      case RequestShape::Kind::kAtomic:
        work.opcode = header.opcode == Opcode::kCompareSwap ? WorkOpcode::kCompareSwap
                                                            : WorkOpcode::kFetchAdd;
        break;
      default:
        work.opcode = shape.immediate ? WorkOpcode::kSendWithImm : WorkOpcode::kSend;
        if (shape.invalidate) work.opcode = WorkOpcode::kSendWithInvalidate;
        break;
    }
  }

  void Send() {
    TxPacket packet;
    while (qp_.PollPacket(now_, packet)) {
      if (packet.retransmission) continue;
      ours_.push_back(wire::ToString(packet.header, packet.payload_bytes()));
    }
  }

  void Receive(const Line& line) {
    if (!line.delivered) return;
    Effect effect;
    static_cast<void>(qp_.OnPacket(line.packet, now_, effect));
    if (effect.kind != Effect::Kind::kNone) qp_.OnEffectDone(EffectOutcome::kDone, 0, now_);
    if (qp_.state() == QpState::kErr && failure_ == WcStatus::kSuccess) NoteFailure(line);
  }
  void NoteFailure(const Line& line) {
    const uint8_t syndrome = line.packet.header.aeth.syndrome;
    if (IsRnrNak(line.packet)) failure_ = WcStatus::kRnrRetryExcErr;
    if (syndrome == wire::kNakInvalidRequest) failure_ = WcStatus::kRemInvReqErr;
    if (syndrome == wire::kNakRemoteAccess) failure_ = WcStatus::kRemAccessErr;
    if (syndrome == wire::kNakRemoteOperation) failure_ = WcStatus::kRemOpErr;
  }

  wire::Psn next_;
  uint32_t posted_ = 0;
  uint32_t unanswered_ = 0;
  WcStatus failure_ = WcStatus::kSuccess;
  Texts theirs_;
  Texts ours_;
  std::vector<WcStatus> statuses_;
};

// ---- the tests ----

struct Case {
  const char* capture;
  bool selective;
};

void PrintTo(const Case& replay, std::ostream* out) {
  *out << replay.capture << (replay.selective ? " selective" : "");
}

class GoldenReplay : public testing::TestWithParam<Case> {
 protected:
  GoldenReplay() : conversations_(UROCE_GOLDEN_DIR, GetParam().capture) {}
  Conversations conversations_;
};

TEST_P(GoldenReplay, OurResponderAnswersAsRxeDid) {
  for (const Conversation& conversation : conversations_.all()) {
    ResponderReplay replay(GetParam().capture, conversation, GetParam().selective);
    replay.Run();
    EXPECT_EQ(replay.Ours(), replay.Theirs()) << conversation.name;
  }
}

TEST_P(GoldenReplay, OurRequesterAsksAndCompletesAsRxeDid) {
  for (const Conversation& conversation : conversations_.all()) {
    RequesterReplay replay(GetParam().capture, conversation, GetParam().selective);
    replay.Run();
    EXPECT_EQ(replay.ours(), replay.theirs()) << conversation.name;
    EXPECT_EQ(replay.statuses(), replay.Expected()) << conversation.name;
  }
}

std::string TestName(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.capture;
  std::ranges::replace(name, '-', '_');
  return name + (info.param.selective ? "_selective" : "");
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* capture : kGoldenCaptures) {
    for (const bool selective : {false, true}) cases.push_back({capture, selective});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Captures, GoldenReplay, testing::ValuesIn(Cases()), TestName);

}  // namespace
}  // namespace uroce::transport
