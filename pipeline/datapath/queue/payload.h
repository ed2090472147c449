// SPDX-License-Identifier: Apache-2.0
// The payload of packets: gathered from and placed in the memory of a program, in an order that
// programs may rely on, with the ICRC where that is computed on the way. A walk finds the pieces of
// memory that a packet belongs to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"

struct rte_mbuf;

namespace uroce::datapath {

// Copies whose bytes another CPU sees in rising order of their addresses, as a reader expects that
// polls the last byte.

// The order of an ordered copy's stores, for vectors of every width.

template <size_t bytes>
struct VectorOf {
  using Type [[gnu::vector_size(bytes)]] = long long;
};

/// Stores one aligned piece. Volatile: the compiler neither splits, merges nor moves it.
struct StoreToMemory {
  template <typename Piece>
  [[gnu::always_inline]] static void Store(uint8_t* to, const Piece& piece) {
    *reinterpret_cast<volatile Piece*>(to) = piece;
  }
};

/// One copy, by vectors of `vector_bytes` and the smaller pieces that the two ends need. Each store
/// is aligned and begins where the last one ended. The code is inlined into a function that is
/// compiled for processors with such vectors.
template <size_t vector_bytes, typename Sink>
class RisingCopy {
 public:
  [[gnu::always_inline]] RisingCopy(uint8_t* to, const uint8_t* from, size_t length_bytes)
      : to_(to), from_(from), left_(length_bytes) {}

  [[gnu::always_inline]] void Run() {
    if (IsOff(sizeof(SixteenBytes) - 1)) AlignDestination();
    if (left_ > 2 * kLineBytes) MoveVectors();
    while (left_ >= kLineBytes) MoveFour<SixteenBytes>();
    while (left_ >= sizeof(SixteenBytes)) Move<SixteenBytes>();
    if (left_ != 0) MoveEnd();
  }

 private:
  static constexpr size_t kLineBytes = 64;
  using Vector = typename VectorOf<vector_bytes>::Type;
  using SixteenBytes = typename VectorOf<16>::Type;

  /// Loads by reference: a function cannot return a vector that its instruction set lacks.
  template <typename Piece>
  [[gnu::always_inline]] void Load(Piece& piece, size_t offset) const {
    memcpy(&piece, from_ + offset, sizeof(piece));
  }

  [[gnu::always_inline]] void Pass(size_t bytes) {
    to_ += bytes;
    from_ += bytes;
    left_ -= bytes;
  }

  template <typename Piece>
  [[gnu::always_inline]] void Move() {
    Piece piece;
    Load(piece, 0);
    Sink::Store(to_, piece);
    Pass(sizeof(Piece));
  }

  /// Makes all loads before the stores: a load that misses the cache does not delay the others.
  template <typename Piece>
  [[gnu::always_inline]] void MoveFour() {
    Piece a, b, c, d;
    Load(a, 0);
    Load(b, sizeof(Piece));
    Load(c, 2 * sizeof(Piece));
    Load(d, 3 * sizeof(Piece));
    Sink::Store(to_, a);
    Sink::Store(to_ + sizeof(Piece), b);
    Sink::Store(to_ + 2 * sizeof(Piece), c);
    Sink::Store(to_ + 3 * sizeof(Piece), d);
    Pass(4 * sizeof(Piece));
  }

  /// Whether one of these bits of the destination's address is set.
  [[gnu::always_inline]] bool IsOff(size_t bits) const {
    return (reinterpret_cast<uintptr_t>(to_) & bits) != 0;
  }

  /// Moves vectors until a line or less is left.
  [[gnu::always_inline]] void MoveVectors() {
    while (IsOff(vector_bytes - 1)) Move<SixteenBytes>();
    // A vector with more than a line to go is not in the last line.
    while (left_ > kLineBytes + 3 * vector_bytes) MoveFour<Vector>();
    while (left_ > kLineBytes) Move<Vector>();
  }

  /// Aligns the destination to 16 bytes. Ends early when too few bytes are left for the next piece.
  [[gnu::always_inline]] void AlignDestination() {
    if (IsOff(7)) [[unlikely]] {
      if (IsOff(1) && left_ >= 1) Move<uint8_t>();
      if (IsOff(2) && left_ >= 2) Move<uint16_t>();
      if (IsOff(4) && left_ >= 4) Move<uint32_t>();
    }
    if (IsOff(8) && left_ >= 8) Move<uint64_t>();
  }

  /// The last 1 to 15 bytes.
  [[gnu::always_inline]] void MoveEnd() {
    if ((left_ & 8) != 0) Move<uint64_t>();
    if ((left_ & 4) != 0) Move<uint32_t>();
    if ((left_ & 2) != 0) Move<uint16_t>();
    if ((left_ & 1) != 0) Move<uint8_t>();
  }

  uint8_t* to_;
  const uint8_t* from_;
  size_t left_;
};

// The copy that places payload. Programs poll on memory while it is written, so the order of the
// stores is part of what the NIC promises. memcpy promises no order (that of glibc stores the end
// of some lengths before the beginning).

/// Copies in rising addresses. At any moment the destination holds the first bytes of the source,
/// and behind them its old bytes; the number of copied bytes never falls. An aligned piece of eight
/// bytes is one store, and so are the aligned pieces of four and two that the ends leave.
/// Shape: any length and alignment; the two ranges do not overlap.
/// Order: x86-64 makes stores visible in program order, and each of them is in one cache line.
///   Stores of up to 16 bytes are visible at once. Wider ones may become visible in parts, so the
///   last cache line, where most programs poll, has none. On arm64 each store is a release.
void OrderedCopy(uint8_t* to, const uint8_t* from, size_t length_bytes);

/// The copy for one instruction set. For tests and benchmarks.
struct OrderedCopyKernel {
  const char* name;
  void (*copy)(uint8_t* to, const uint8_t* from, size_t length_bytes);
};

/// The kernels that this machine can run, best first. OrderedCopy uses the first.
std::span<const OrderedCopyKernel> AvailableOrderedCopyKernels();

// A queue pair that waits for its session's helper: its current job, and the packets behind it.

/// Bytes on their way between memory and a frame, and how far they have come.
struct Transfer {
  uroce_sge remote{};  ///< A remote range as a list of one entry, for `walker`.
  PieceWalker walker;
  uint8_t* bytes = nullptr;  ///< Where `walker` stands in the frame or the job.

  /// Continues at the position of `other`, which may end then.
  void Continue(const Transfer& other) {
    *this = other;
    if (walker.list().data() == &other.remote) walker.set_list({&remote, 1});
  }
};

/// A position in the bytes that a message moves: in one list of entries, or under one key.
struct MessagePlace {
  uint32_t key = 0;       ///< Slot of the work, or rkey.
  uint64_t position = 0;  ///< Offset in its list, or address.

  bool operator==(const MessagePlace&) const = default;
};

/// Payload of waiting packets that the copy job of an earlier packet has placed. The transport has
/// not seen these packets yet. Their numbers are consecutive.
struct BatchedPlacements {
  struct Placed {
    MessagePlace place;
    uint32_t length_bytes = 0;
  };

  transport::Effect::Kind kind = transport::Effect::Kind::kNone;
  wire::Psn psn;  ///< Of the next packet.
  uint32_t next = 0;
  uint32_t end = 0;
  std::array<Placed, CopyJob::kMaxBatched> packets;  ///< [next, end).

  bool empty() const { return next == end; }
  void Clear() { next = end = 0; }
};

/// Payload of the packets that one message sends next, read by the copy job of an earlier
/// packet.
struct PrefetchedPayload {
  MessagePlace place;  ///< Where the first of them begins.
  wire::Psn psn;       ///< Its number.
  uint32_t next = 0;
  uint32_t end = 0;
  std::array<rte_mbuf*, CopyJob::kMaxBatched> frames;  ///< [next, end): each a packet's payload.

  bool empty() const { return next == end; }
};

/// Accessed only while the queue pair waits, so that it takes no cache lines otherwise.
struct WaitingWork {
  /// Attributes that came during the wait, and apply when it is over.
  struct Modification {
    transport::QpState state;
    Attributes attributes;
  };

  transport::Effect effect;
  wire::Opcode effect_opcode = wire::Opcode::kAcknowledge;  ///< Of the packet with the effect.
  wire::Psn effect_psn;
  transport::TxPacket packet;
  Transfer transfer;
  uint32_t crc_before_payload = 0;  ///< kGather.
  CopyJob* in_flight = nullptr;
  bool is_due = false;  ///< The job is done before the turn ends: payload may stay where it lies.
  std::unique_ptr<CopyJob> job = std::make_unique<CopyJob>();
  std::optional<Modification> modification;

  // Packets that arrived during the wait, linked by rte_mbuf::next.
  rte_mbuf* oldest = nullptr;
  rte_mbuf* newest = nullptr;
  uint32_t packets = 0;
  bool refers = false;       ///< Payload of some of them may lie elsewhere, in this turn.
  bool gate_closed = false;  ///< Peers in the daemon must wait.

  // Jobs for this side's requests and for its answers take turns: there is one slot for both.
  BatchedPlacements placed_requests;
  BatchedPlacements placed_responses;
  PrefetchedPayload prefetched_requests;
  PrefetchedPayload prefetched_responses;
};

// The ICRC of a packet while its payload is copied into the frame.

/// The CRC register after the bytes that are in the frame. Where the ICRC is left out
/// (pipeline/port/frames.h), bytes are copied only.
class RunningIcrc {
 public:
  RunningIcrc(uint32_t state, bool is_left_out) : state_(state), is_left_out_(is_left_out) {}

  void Copy(uint8_t* to, const uint8_t* from, size_t length_bytes) {
    if (is_left_out_) {
      std::memcpy(to, from, length_bytes);
    } else {
      state_ = wire::CopyCrc32(state_, to, from, length_bytes);
    }
  }
  /// For bytes that the frame has already.
  void Pass(std::span<const uint8_t> bytes) {
    if (!is_left_out_) state_ = wire::Crc32Update(state_, bytes);
  }

  /// Meaningless if the ICRC is left out.
  uint32_t state() const { return state_; }
  bool is_left_out() const { return is_left_out_; }

 private:
  uint32_t state_;
  bool is_left_out_;
};

// Moves of payload between a frame and that memory of a program which the worker itself can access.

enum class MoveResult : uint8_t {
  kDone,
  kDenied,  ///< A key, a right or a range forbids it.
  kCopied,  ///< The next bytes lie where only system calls reach: see TakeCopied.
};

/// Writes bytes of a frame into mapped memory, in the order of OrderedCopy: programs poll on the
/// last byte of a WRITE. A null segment drops its bytes. `bytes` advances with `walker`.
MoveResult Place(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes);
/// Mapped memory that several packets carry one after the other, found before the first byte is
/// moved. Valid in the turn in which it was found.
class MappedRun {
 public:
  /// Finds the memory where `walker` stands. False: not all of it is mapped, a key, a right or a
  /// range forbids it, or it lies in many pieces.
  [[nodiscard]] bool Find(const KeyTable& keys, PieceWalker walker);
  /// Reads the next bytes into a frame. `icrc` takes them in the same pass.
  void Gather(uint8_t* to, size_t length_bytes, RunningIcrc& icrc);
  /// Writes the next bytes, in the order of OrderedCopy.
  void Place(const uint8_t* from, size_t length_bytes);

 private:
  static constexpr size_t kMost = 8;

  /// Calls `move` for each part of the next `length_bytes`.
  template <typename MoveBytes>
  void Next(size_t length_bytes, MoveBytes&& move);

  std::array<Piece, kMost> pieces_;
  size_t count_ = 0;
  size_t at_ = 0;
  size_t passed_ = 0;  ///< Bytes of the piece at `at_`.
};

/// Does the same as Place for bytes of `payload`, which lie in memory of a program. Where they
/// overlap with what is written, they go through `room`, which has as many bytes.
MoveResult PlaceReferred(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes,
                         std::span<const uint8_t> payload, uint8_t* room);
/// Reads mapped memory into a frame. Null segments read as zeros. At most one packet's payload.
MoveResult Gather(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes);
/// Does the same as Gather, and `icrc` takes the bytes in the same pass. After kCopied `icrc` is
/// meaningless.
MoveResult GatherWithIcrc(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes,
                          RunningIcrc& icrc);
/// After kCopied: adds the copied pieces that come next, as many as there is room for, to `job`.
/// `bytes` advances with `walker`. `for_worker`: ends before a piece that may wait.
void TakeCopied(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes, CopyJob& job,
                bool for_worker = false);

/// Executes a fetch and add or a compare and swap on mapped memory, eight aligned bytes; returns
/// what was there.
uint64_t ExecuteAtomic(uint8_t* mapped, bool compare_swap, uint64_t swap_add, uint64_t compare);

// Finds where the payload of a message lies in a program's memory, and which right an access to it
// needs (docs/protocol/verbs-semantics.md, section 5).

inline uint32_t RightFor(transport::Access access) {
  switch (access) {
    case transport::Access::kRemoteRead:
      return kRemoteRead;
    case transport::Access::kRemoteWrite:
      return kRemoteWrite;
    case transport::Access::kRemoteAtomic:
      return kRemoteAtomic;
  }
  return UINT32_MAX;
}

/// The access right of the peer of `qp`, for keys that the peer names.
inline AccessRight RemoteRight(const QueuePair& qp, uint32_t rights) {
  return {qp.receive_source().remote_pd(), rights, qp.qpn().value(),
          qp.receive_source().memory_session()};
}

/// The access right of works of `qp`, whose keys belong to `pd`.
inline AccessRight LocalRight(const QueuePair& qp, uint32_t pd, uint32_t rights) {
  return {.pd = pd, .rights = rights, .session = qp.receive_source().memory_session()};
}

inline MessagePlace PlaceOf(const transport::Effect& effect) {
  if (effect.kind == transport::Effect::Kind::kPlaceRemote) {
    return {effect.remote.rkey.value(), effect.remote.va};
  }
  return {effect.local.slot, effect.local.offset_bytes};
}

inline MessagePlace PlaceOf(const transport::TxPacket& packet) {
  if (packet.payload_source == transport::TxPacket::Source::kRemote) {
    return {packet.remote.rkey.value(), packet.remote.va};
  }
  return {packet.local.slot, packet.local.offset_bytes};
}

/// The number of bytes that `effect` places.
inline uint32_t LengthOf(const transport::Effect& effect) {
  return effect.kind == transport::Effect::Kind::kPlaceRemote ? effect.remote.length_bytes
                                                              : effect.local.length_bytes;
}

/// A walker over `length` bytes from `place` in a list of entries.
inline PieceWalker WalkList(std::span<const uroce_sge> list, const MessagePlace& place,
                            uint32_t length, const AccessRight& right) {
  return {list, static_cast<uint32_t>(place.position), length, right};
}

/// A walker over `length` bytes from `place` under a key; `entry` has to outlive the walker.
inline PieceWalker WalkKey(uroce_sge& entry, const MessagePlace& place, uint32_t length,
                           const AccessRight& right) {
  entry = {place.position, length, place.key};
  return {{&entry, 1}, 0, length, right};
}

/// A walker over the bytes that an effect of `kind` places at `place`.
inline PieceWalker WalkEffect(const QueuePair& qp, transport::Effect::Kind kind,
                              const MessagePlace& place, uint32_t length, uroce_sge& entry) {
  using Kind = transport::Effect::Kind;
  if (kind == Kind::kPlaceRemote) {
    return WalkKey(entry, place, length, RemoteRight(qp, kRemoteWrite));
  }
  if (kind == Kind::kPlaceReceive) {
    return WalkList(qp.works().receive_list().List(place.key), place, length,
                    LocalRight(qp, qp.receive_source().pd(), kLocalWrite));
  }
  return WalkList(qp.works().send_lists().List(place.key), place, length,
                  LocalRight(qp, qp.config().pd, kLocalWrite));
}

/// A walker over the bytes that a packet like `packet` carries from `place`.
inline PieceWalker WalkPacket(const QueuePair& qp, const transport::TxPacket& packet,
                              const MessagePlace& place, uint32_t length, uroce_sge& entry) {
  if (packet.payload_source == transport::TxPacket::Source::kRemote) {
    return WalkKey(entry, place, length, RemoteRight(qp, kRemoteRead));
  }
  return WalkList(qp.works().send_lists().List(place.key), place, length,
                  LocalRight(qp, qp.config().pd, kLocalRead));
}

}  // namespace uroce::datapath
