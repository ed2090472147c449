// SPDX-License-Identifier: Apache-2.0
// Frames through sockets of the kernel, whatever kind they are: a burst is grouped by flow and each
// group leaves as one superframe, superframes that arrive are cut into frames, and a full socket is
// tried again later. packet_frames.h and datagrams.h are the two back ends.
#pragma once

#include <rte_mbuf.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "pipeline/base/types.h"
#include "pipeline/port/port.h"
#include "pipeline/port/superframes.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

inline std::span<uint8_t> FrameBytes(rte_mbuf& frame) {
  return {rte_pktmbuf_mtod(&frame, uint8_t*), frame.data_len};
}

/// The frames of a burst, in groups that leave as one superframe each. A flow's frames keep their
/// order: a frame that does not fit its flow's newest group begins another. One thread.
class FrameGroups {
 public:
  static constexpr uint16_t kMostFrames = 64;
  static constexpr uint8_t kNoFrame = 0xff;

  struct Group {
    std::optional<wire::SuperframeBuilder> builder;
    uint8_t first = 0;  ///< Index into the burst; NextOf leads from one frame to the next.
    uint8_t last = 0;
  };

  /// `joins`: groups may have more than one frame. Range: `count` up to kMostFrames.
  void Make(rte_mbuf* const* frames, uint16_t count, bool joins);
  /// Leaves the last group out of those that are to be sent, if it has the last frame and room for
  /// another one. A frame alone is not left out, nor is the only group. Returns whether it did.
  bool KeepOpenGroup();
  /// Groups that are to be sent.
  uint16_t size() const { return size_; }
  const Group& operator[](uint16_t index) const { return groups_[index]; }
  uint8_t NextOf(uint8_t frame) const { return next_[frame]; }
  /// Frees the frames of the first `sent` groups, and moves the others, in the order of their
  /// groups, behind them. `frames` and `count` are those of Make. Returns how many were freed.
  uint16_t Release(uint16_t sent, rte_mbuf** frames, uint16_t count) const;

 private:
  void Place(rte_mbuf& frame, uint8_t index, bool joins);

  const SuperframeMark mark_;

  std::array<Group, kMostFrames> groups_;
  std::array<uint8_t, kMostFrames> next_{};
  uint16_t size_ = 0;
  uint16_t all_ = 0;     ///< With the group that is left out.
  uint16_t frames_ = 0;  ///< Of all.
};

/// A turn has room for a superframe of the longest, whatever the size of its packets.
inline constexpr TurnLimit kSocketTurn = {.frames = FrameGroups::kMostFrames,
                                          .bytes = 2 * wire::kMaxSuperframeBytes};
static_assert(kSocketTurn.frames <= Port::kMostTurnFrames);

/// What a burst has come to.
struct SentFrames {
  uint16_t frames = 0;   ///< Sent or dropped: their mbufs are freed.
  uint32_t dropped = 0;  ///< Packets that the kernel cannot send.
  bool is_full = false;  ///< The kernel has no room for the frame that is first now.
};

/// Sends bursts, those frames of a flow that leave together as superframes. One thread.
class SuperframeSender {
 public:
  /// What an error says of superframes.
  enum class Refusal : uint8_t {
    kNone,  ///< The frames themselves cannot be sent.
    kNow,   ///< The frames of this burst leave one by one.
    kEver,  ///< All frames leave one by one from now on.
  };
  /// Gives the groups to the kernel, a message each. Returns how many it took from the first on; -1
  /// and errno: none.
  using SendGroups = absl::FunctionRef<int(const FrameGroups&, rte_mbuf* const*)>;

  /// Sends the first n of `count` frames; frames of different flows may change their order, also in
  /// `frames`. A superframe that is refused leaves as single frames, as `refusal_of` its errno
  /// says; any other group that is refused is dropped. `goes_on`: more frames of the last flow
  /// follow at the next call, so its superframe may wait for them.
  SentFrames Send(rte_mbuf** frames, uint16_t count, bool goes_on, SendGroups send,
                  Refusal (*refusal_of)(int));
  /// Whether the kernel has refused none for good.
  bool sends_superframes() const { return sends_superframes_; }

 private:
  /// Sends the packets of a superframe one by one, and frees it; one that the kernel has no room
  /// for keeps the packets that are left. True: it was sent or dropped.
  bool SendOneByOne(rte_mbuf** superframe, SendGroups send, SentFrames& result);

  FrameGroups groups_;
  const SuperframeMark mark_;
  bool sends_superframes_ = true;
};

/// When a socket that the kernel had no room for is tried again, and when its frames are given up.
/// One thread.
class TransmitGate {
 public:
  /// A socket or queue of the kernel that was full is tried again after this time.
  static constexpr Nanos kTryAgain{20'000};
  /// After this time of refusals frames are dropped: the interface or host does not send.
  static constexpr Nanos kRefusalLimit{1'000'000'000};

  /// Whether frames may be given to the kernel.
  bool is_open() const { return try_again_at_ == kNever; }
  /// When a closed gate opens; kNever for an open one.
  Nanos opens_at() const { return try_again_at_; }
  /// Opens the gate if it is time.
  void Advance(Nanos now) {
    if (try_again_at_ <= now) try_again_at_ = kNever;
  }
  /// The kernel has taken frames, if `took_some`, and refused the next one, if `is_full`, which
  /// closes the gate. True: it has taken none for so long that the frames are to be dropped.
  [[nodiscard]] bool GivesUp(bool took_some, bool is_full, Nanos now) {
    if (took_some || !is_full) refused_since_ = kNever;
    if (!is_full) return false;
    if (refused_since_ == kNever) refused_since_ = now;
    if (now - refused_since_ >= kRefusalLimit) return true;
    try_again_at_ = now + kTryAgain;
    return false;
  }

 private:
  Nanos try_again_at_ = kNever;
  Nanos refused_since_ = kNever;
};

/// Receives messages of a socket, each a frame or a superframe, and makes frames of them. A back
/// end says what is in a message. One thread.
class MessageReader {
 public:
  MessageReader(const MessageReader&) = delete;
  MessageReader& operator=(const MessageReader&) = delete;

  /// Whether frames are left of what the reader has read.
  bool has_frames() const { return at_ != read_; }

  /// The worker has slept: frames may wait at any socket, and their wake-up is over.
  void OnWake() { asks_all_ = true; }

  struct Counts {
    uint64_t dropped = 0;  ///< Frames and superframes: too long, or of another kind.
    uint64_t fitted = 0;   ///< Identifications that the ICRC told, see IdentificationGuess.
  };
  /// Counts since the last call.
  Counts TakeCounts() { return std::exchange(counts_, {}); }

 protected:
  static constexpr uint16_t kMost = 32;         ///< Messages of one system call.
  static constexpr size_t kControlBytes = 176;  ///< More than sockets tell of a message.
  /// The back end sets the parts of each message, and where its source goes.
  MessageReader();
  ~MessageReader() = default;

  /// Yields up to `count` frames and the bytes of a turn in mbufs of `pool`; the caller owns them.
  /// Calls `read` at most once, and only when nothing is left of what was read before. `whole`:
  /// superframes that are right may be yielded as they are.
  uint16_t ReceiveFrames(rte_mempool* pool, rte_mbuf** frames, uint16_t count, bool whole,
                         absl::FunctionRef<bool()> read);
  /// Reads messages; forgets the former ones. False: there are none.
  bool ReadMessages(int socket);

  /// The message at `index` goes to the buffer that it has now.
  virtual void UseBuffer(uint16_t index) = 0;
  /// Begins with the message at `at_`. False: it was dropped.
  virtual bool Begin() = 0;
  /// Writes frame number `segment_` of the message to `frame`. False: it does not fit.
  virtual bool Write(rte_mbuf& frame) = 0;

  uint8_t* BufferOf(uint16_t index) const { return buffers_[index]->bytes.data(); }

  alignas(cmsghdr) std::array<std::array<uint8_t, kControlBytes>, kMost> controls_{};
  std::array<mmsghdr, kMost> headers_{};
  socklen_t source_bytes_ = 0;  ///< Room for the source of a message.
  uint16_t read_ = 0;           ///< Messages in the buffers.
  uint16_t at_ = 0;             ///< The message that is next, or begun.
  bool has_superframes_ = false;
  bool asks_all_ = true;  ///< Until no socket has anything.
  Counts counts_;

  // Of the message that is begun.
  std::optional<wire::SuperframeCutter> cutter_;  ///< Nothing: the message is one frame.
  uint32_t segment_ = 0;
  std::span<uint8_t> superframe_;  ///< That of `cutter_`.
  /// Nothing: the ICRCs of the superframe are not all right.
  std::optional<wire::Identifications> identifications_;

 private:
  /// A buffer beside those that messages are read into is lent at once.
  static constexpr size_t kLent = 16;

  /// Lends the buffer of the superframe to an mbuf of `pool`. Null: it must be cut.
  rte_mbuf* TakeWhole(rte_mempool* pool);
  void End() {
    ++at_;
    is_begun_ = false;
  }

  bool is_begun_ = false;
  LongBuffers stock_{kMost + kLent};
  std::array<LongBuffer*, kMost> buffers_{};
  const SuperframeMark mark_;
  const CheckedIcrc checked_;
};

}  // namespace uroce::drivers
