// SPDX-License-Identifier: Apache-2.0
// Selective repeat. At a responder: which packets it has behind a hole. At a requester: which
// packets and responses are lost, according to the maps of its responder, and which packets it
// resends one by one (pipeline/transport/loss-recovery.md).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/transport/send_queue.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

// A set of PSNs within a window: a bitmap.

/// Members lie within a window of kWindow PSNs. The owner moves the window, and erases members
/// before the window moves past them.
class PacketSet {
 public:
  static constexpr uint32_t kWindow = 2048;

  bool empty() const { return count_ == 0; }
  bool Contains(wire::Psn psn) const { return (WordOf(psn) & BitOf(psn)) != 0; }
  void Insert(wire::Psn psn) {
    count_ += !Contains(psn);
    WordOf(psn) |= BitOf(psn);
  }
  void Erase(wire::Psn psn) {
    count_ -= Contains(psn);
    WordOf(psn) &= ~BitOf(psn);
  }
  void Erase(wire::Psn from, uint32_t packets) {
    if (packets >= kWindow) return Clear();
    for (; packets != 0 && !empty(); --packets, from = from + 1) Erase(from);
  }
  void Clear() {
    if (!empty()) words_ = {};
    count_ = 0;
  }
  /// The bits of the 64 PSNs from `from` on; bit 0 is `from`.
  uint64_t Word(wire::Psn from) const {
    const uint32_t skipped = from.value() % kWordBits;
    const uint64_t low = WordOf(from) >> skipped;
    return skipped == 0 ? low : low | WordOf(from + kWordBits) << (kWordBits - skipped);
  }
  void Insert(wire::Psn from, uint64_t bits) {
    Change(from, bits, [](uint64_t word, uint64_t changed) { return word | changed; });
  }
  void Erase(wire::Psn from, uint64_t bits) {
    Change(from, bits, [](uint64_t word, uint64_t changed) { return word & ~changed; });
  }
  /// The distance from `from` to the first member; kWindow when there is none.
  uint32_t ToMember(wire::Psn from) const { return Scan(from, 0); }
  /// The distance from `from` to the first PSN that is no member; kWindow when all are members.
  uint32_t ToGap(wire::Psn from) const { return Scan(from, ~uint64_t{0}); }

 private:
  static constexpr uint32_t kWordBits = 64;
  static constexpr uint32_t kWords = kWindow / kWordBits;

  static uint64_t BitOf(wire::Psn psn) { return uint64_t{1} << (psn.value() % kWordBits); }
  uint64_t& WordOf(wire::Psn psn) { return words_[psn.value() / kWordBits % kWords]; }
  const uint64_t& WordOf(wire::Psn psn) const { return words_[psn.value() / kWordBits % kWords]; }
  /// Applies `make` to the one or two words that hold the 64 PSNs from `from` on.
  template <typename Make>
  void Change(wire::Psn from, uint64_t bits, Make&& make) {
    const uint32_t skipped = from.value() % kWordBits;
    ChangeWord(WordOf(from), bits << skipped, make);
    if (skipped != 0) ChangeWord(WordOf(from + kWordBits), bits >> (kWordBits - skipped), make);
  }
  template <typename Make>
  void ChangeWord(uint64_t& word, uint64_t bits, Make&& make) {
    const uint64_t made = make(word, bits);
    count_ += static_cast<uint32_t>(std::popcount(made) - std::popcount(word));
    word = made;
  }
  /// The distance from `from` to the first bit that is set after exclusive or with `flip`.
  uint32_t Scan(wire::Psn from, uint64_t flip) const {
    const uint32_t skipped = from.value() % kWordBits;
    for (uint32_t word = 0; word <= kWords; ++word) {
      uint64_t bits = WordOf(from + word * kWordBits) ^ flip;
      if (word == 0) bits &= ~uint64_t{0} << skipped;
      const uint32_t distance = word * kWordBits + static_cast<uint32_t>(std::countr_zero(bits));
      if (bits != 0) return distance - skipped < kWindow ? distance - skipped : kWindow;
    }
    return kWindow;
  }

  std::array<uint64_t, kWords> words_{};
  uint32_t count_ = 0;
};

// Selective repeat at a responder: the set of packets that it has behind a hole in the PSNs. The
// shell keeps the packets themselves, and gives each back in its turn.

static_assert(PacketSet::kWindow <= wire::kMaxKeptPackets);

/// How many PSNs from ePSN on a responder keeps: their map fits into a packet of the path MTU.
constexpr uint32_t KeptWindow(PathMtu mtu) {
  return std::min(PacketSet::kWindow, (mtu.bytes() - wire::kKeptMapHeaderBytes) * 8);
}

/// The packets behind a hole in the PSNs, and whether the requester has agreed to selective repeat.
/// Pure, of fixed size, owned by a Responder. The set is allocated only when selective repeat is
/// offered: otherwise nothing is ever kept.
///
/// PSNs: expected_ (ePSN) .. end_ (no packet from there on has come). Members lie in between, less
/// than a KeptWindow ahead of ePSN. A READ request takes the PSNs of its responses, and all of them
/// are members.
class KeptPackets {
 public:
  /// `offered`: the requester may agree to selective repeat.
  explicit KeptPackets(bool offered) : set_(offered ? std::make_unique<Set>() : nullptr) {}

  /// Sets whether the requester understands selective acknowledgements.
  void SetSelective(bool agreed) { selective_ = agreed && set_ != nullptr; }
  bool is_selective() const { return selective_; }
  /// Forgets what was kept; `expected` becomes ePSN.
  void Start(wire::Psn expected);

  /// Whether a packet ahead of ePSN has come.
  bool is_open() const { return open_; }
  /// Whether the packet at ePSN is kept: its turn has come.
  bool is_next_kept() const { return next_kept_; }
  /// Whether the shell keeps at least one packet.
  bool keeps() const { return set_ != nullptr && !set_->psns.empty(); }

  // ---- needs selective repeat to be offered ----
  bool Contains(wire::Psn psn) const { return set_->psns.Contains(psn); }
  /// The shell keeps the packet `psn`, which takes `packets` PSNs, all within the window.
  void Insert(wire::Psn psn, uint32_t packets);
  /// The packet `psn` came and is not kept: it must come again.
  void NoteSeen(wire::Psn psn);
  /// The shell has given back the packet `psn`.
  void Erase(wire::Psn psn);
  /// Moves ePSN to `expected`: all packets before were executed.
  void Advance(wire::Psn expected);
  /// The map of a selective acknowledgement. Valid until the next call. Needs is_open().
  std::span<const uint8_t> Map();

 private:
  struct Set {
    PacketSet psns;
    std::array<uint8_t, wire::kMaxKeptMapBytes> map;
  };
  /// Keeps what each packet needs to know beside the set, which few packets touch.
  void Look() {
    open_ = end_ != expected_;
    next_kept_ = Contains(expected_);
  }

  const std::unique_ptr<Set> set_;
  wire::Psn expected_;
  wire::Psn end_;
  bool selective_ = false;
  bool open_ = false;
  bool next_kept_ = false;
};

// Selective repeat at a requester.

/// Measures the round-trip time of a requester.
/// Measures one round trip at a time. A round begins with a packet that is sent, and ends when
/// that packet, or one sent later, is known to have arrived. Pure, owned by a LossRecovery.
class RoundTrip {
 public:
  /// The packet `psn` is sent: begins a round unless one is under way.
  void OnSent(wire::Psn psn, Nanos now) {
    if (began_ != kNever) return;
    began_ = now;
    first_ = psn;
  }
  /// Whether `psn` was sent for the first time in this round: its arrival ends the round.
  bool Covers(wire::Psn psn) const { return psn.Since(first_) >= 0; }
  /// Whether a packet before `end` was sent for the first time in this round.
  bool CoversBefore(wire::Psn end) const { return end.Since(first_) > 0; }
  /// A packet of this round has arrived. False: no round is under way, and nothing changes.
  bool End(Nanos now) {
    if (began_ == kNever) return false;
    const Nanos sample = now - began_;
    const int64_t change = (sample - smoothed_).count() / kSmoothing;
    smoothed_ = measured() ? smoothed_ + Nanos(change) : sample;
    began_ = kNever;
    newest_ = sample;
    return true;
  }
  /// Gives up the round under way: its packets are sent again.
  void GiveUp() { began_ = kNever; }
  /// Forgets all that was measured.
  void Reset() {
    began_ = kNever;
    smoothed_ = Nanos();
  }

  bool measured() const { return smoothed_ != Nanos(); }
  /// The newest round-trip time; 0 when none was measured since the last call.
  Nanos TakeNewest() { return std::exchange(newest_, Nanos()); }
  /// The smoothed round-trip time; 0 when none was measured yet.
  Nanos smoothed() const { return smoothed_; }

 private:
  /// A new sample has a weight of 1 / kSmoothing.
  static constexpr int64_t kSmoothing = 8;

  Nanos began_ = kNever;
  Nanos smoothed_;
  Nanos newest_;
  wire::Psn first_;
};

/// The packets that a requester resends one by one, because its responder has named them.
/// Pure, of fixed size, owned by a Requester. Members lie less than a window behind the oldest
/// unacknowledged packet.
///
/// A responder names a hole again and again until it is filled. A packet that was resent in this
/// round or the one before may be on its way, and does not count as lost. When a packet sent in a
/// round has arrived, everything sent before that round has either arrived or is lost. The same is
/// true for packets resent earlier in that round: resends follow the order of PSNs, because within
/// a round no resent packet becomes lost again.
class SelectiveResend {
 public:
  /// Nothing is lost; `una` is the oldest unacknowledged packet.
  void Start(wire::Psn una);
  bool any() const { return !lost_.empty(); }
  /// The responder has named `psn` as missing. False: its loss is known, or it may be on its way.
  bool Add(wire::Psn psn);
  /// The same for each bit of `missing`, of the 64 PSNs from `from` on. Returns how many are new.
  uint32_t Add(wire::Psn from, uint64_t missing);
  /// The packets of the bits `kept` have arrived. True: one of them was resent in this round.
  bool OnArrived(wire::Psn from, uint64_t kept);
  /// Resends `psn`, so that its answer tells what is missing.
  void AddProbe(wire::Psn psn) { lost_.Insert(psn); }
  /// The first lost packet. Needs any().
  wire::Psn Next() const { return una_ + lost_.ToMember(una_); }
  /// How many packets in a row are lost, from Next() on. Needs any().
  uint32_t Run() const { return lost_.ToGap(Next()); }
  /// The packet `psn`, which takes `packets` PSNs, has been sent again.
  void OnResent(wire::Psn psn, uint32_t packets);
  void NextRound();
  /// No resend is on its way any more.
  void ForgetResent() {
    resent_.Clear();
    resent_before_.Clear();
  }
  /// All before `una` is acknowledged. True: one of these packets was resent in this round.
  bool Forget(wire::Psn una);

 private:
  PacketSet lost_;
  PacketSet resent_;         ///< Packets resent in this round.
  PacketSet resent_before_;  ///< Packets resent in the round before.
  wire::Psn una_;
};

/// Which packets and which responses are lost, according to the maps of the responder.
/// Pure, of fixed size, owned by a LossRecovery. While it is not active it changes nothing, and
/// has_lost() is false.
///
/// PSNs: una .. searched_ .. heard_. The responder has executed all before heard_. All responses
/// that are missing before searched_ are known to be lost.
class SelectiveRepeat {
 public:
  explicit SelectiveRepeat(bool offered) : sets_(offered ? std::make_unique<Sets>() : nullptr) {}

  // ---- state ----
  bool offered() const { return sets_ != nullptr; }
  bool active() const { return active_; }
  /// Sets whether both ends agree. False: nothing changes. True: the caller calls Start next.
  bool SetActive(bool agreed);
  /// Forgets all losses and resends. `una` is the oldest unacknowledged packet.
  void Start(wire::Psn una);
  /// Everything is sent again: forgets losses; only later responses tell of holes.
  void OnGoBack(wire::Psn una);
  void Reset() { active_ = has_lost_ = hears_maps_ = false; }

  // ---- packets to resend ----
  bool has_lost() const { return has_lost_; }
  /// The oldest packet that is lost. Needs has_lost().
  wire::Psn NextLost() const { return sets_->lost.Next(); }
  /// How many packets in a row are lost, from NextLost() on.
  uint32_t LostRun() const { return sets_->lost.Run(); }
  /// The packet `psn`, which takes `packets` PSNs, has been sent again.
  void OnResent(wire::Psn psn, uint32_t packets);
  /// Why lost packets are sent again.
  const Resend& resend() const { return resend_; }
  /// Resends the packet `psn`, so that its answer tells of all packets before it.
  void AddProbe(wire::Psn psn);

  // ---- what the responder reports ----
  /// The responder sends maps, so that a sequence NAK tells nothing new.
  void OnMap() { hears_maps_ = true; }
  bool hears_maps() const { return hears_maps_; }
  /// Notes the packets from `base` on that have arrived according to `map`. True: one of them was
  /// sent in this round.
  bool TakeArrived(const SendWorks& works, wire::Psn base, const wire::KeptMap& map,
                   const RoundTrip& round);
  /// Notes that the packet `psn` has arrived. True: it was sent in this round.
  bool TakeArrived(wire::Psn una, wire::Psn psn);
  /// Resends the packets that are missing according to `map`. Returns how many.
  uint32_t AddMissing(const SendWorks& works, wire::Psn base, const wire::KeptMap& map);
  /// Resends `psn`, which a sequence NAK names. False: its loss is known, or it may be on its way.
  bool AddHole(const SendWorks& works, wire::Psn psn);
  /// All before `una` is acknowledged. True: one of these packets was resent in this round.
  bool OnAcknowledged(wire::Psn una);
  /// A round trip has ended: a packet that was resent before this round has arrived, or is lost
  /// again.
  void OnRound(wire::Psn una);

  // ---- responses to READs and atomics ----
  /// All before `end` was executed and answered. True: responses are now known to be lost, and will
  /// be requested again.
  bool NoteExecuted(const SendWorks& works, wire::Psn end);
  /// Whether the responder has executed the work of `psn`: a READ is then requested in part.
  bool WasExecuted(wire::Psn psn) const { return heard_.Since(psn) > 0; }
  /// Whether responses are known to be missing.
  bool AwaitsResponses(wire::Psn una) const { return heard_.Since(una) > 0; }
  /// Nothing is on its way any more: a repeated request, or its response, was lost too. Returns the
  /// same as NoteExecuted.
  bool AskAgain(const SendWorks& works);
  /// True when the response `psn` came before its turn and was taken.
  bool HasTaken(wire::Psn psn) const { return sets_->taken.Contains(psn); }
  bool has_taken_any() const { return sets_ != nullptr && !sets_->taken.empty(); }
  /// The response `psn` has come before its turn.
  void OnEarlyResponse(wire::Psn psn);
  /// The bytes of the response `psn`, which came before its turn, are placed.
  void OnTaken(wire::Psn psn) { sets_->taken.Insert(psn); }
  /// Acknowledges works that were executed earlier and whose turn has come now.
  void AcknowledgeExecuted(SendWorks& works);

 private:
  /// A separate allocation: connections that do not offer selective repeat have none.
  struct Sets {
    SelectiveResend lost;
    PacketSet taken;  ///< Responses that came before their turn.
  };

  bool AddLost(wire::Psn psn);
  bool FindLostResponses(const SendWorks& works);
  /// How many packets of `map` lie within the window and were sent.
  static uint32_t MapReach(const SendWorks& works, wire::Psn base, const wire::KeptMap& map);

  const std::unique_ptr<Sets> sets_;
  bool active_ = false;
  bool has_lost_ = false;    ///< sets_->lost.any()
  bool hears_maps_ = false;  ///< A map has come since all was sent again last.
  wire::Psn heard_;
  wire::Psn searched_;
  Resend resend_;
};

}  // namespace uroce::transport
