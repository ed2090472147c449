// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/programs/stage_liar.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

namespace uroce::memory_kinds {
namespace {

// As long as the daemon may take to see an answer.
constexpr useconds_t kMoment = 100;

template <typename T>
T Load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

template <typename T>
void Store(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

}  // namespace

uint8_t* FindStage(size_t& bytes) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  char line[1000];
  uint8_t* stage = nullptr;
  while (maps != nullptr && std::fgets(line, sizeof(line), maps) != nullptr) {
    uint64_t start = 0;
    uint64_t end = 0;
    if (std::strstr(line, "uroce-stage") == nullptr) continue;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) != 2) continue;
    stage = reinterpret_cast<uint8_t*>(start);
    bytes = end - start;
  }
  if (maps != nullptr) std::fclose(maps);
  return stage;
}

void Scribble() {
  size_t bytes = 0;
  uint8_t* const stage = FindStage(bytes);
  if (stage == nullptr) std::exit(2);
  std::thread([stage, bytes] {
    constexpr size_t kWordsInFront = 1032;
    constexpr size_t kWordsOfLane = offsetof(uroce_copy_lane, data) / 4;
    std::mt19937 random(1);
    for (;;) {
      auto* word = reinterpret_cast<uint32_t*>(stage);
      const auto where = random() % 16;
      if (where == 0) {
        word += random() % (bytes / 4);
      } else if (where < 8) {
        word += random() % kWordsInFront;
      } else {
        word += sizeof(uroce_stage) / 4 + random() % kWordsOfLane;
      }
      const uint32_t old = Load(*word);
      const auto any = static_cast<uint32_t>(random());
      const uint32_t values[] = {any, old + 1, old - 1, 0, UINT32_MAX, any % 100};
      Store(*word, values[random() % 6]);
      usleep(20);
    }
  }).detach();
}

StageLiar::StageLiar(uint64_t device, size_t bytes) : device_(device), bytes_(bytes) {}

const std::vector<StageLiar::Lie>& StageLiar::Lies() {
  static const std::vector<Lie> lies = {{"honestly", &StageLiar::Honestly},
                                        {"twice", &StageLiar::Twice},
                                        {"for-others", &StageLiar::ForOthers},
                                        {"early", &StageLiar::Early},
                                        {"uncopied", &StageLiar::Uncopied},
                                        {"changing-bytes", &StageLiar::WithChangingBytes},
                                        {"other-fields", &StageLiar::WithOtherFields},
                                        {"errors", &StageLiar::WithErrors},
                                        {"two-errors", &StageLiar::WithTwoErrors},
                                        {"never", &StageLiar::Never}};
  return lies;
}

void StageLiar::Tell(const Lie& lie) {
  Store(lie_, &lie);
  if (is_serving_) return;
  is_serving_ = true;
  size_t bytes = 0;
  stage_ = reinterpret_cast<uroce_stage*>(FindStage(bytes));
  if (stage_ == nullptr || bytes < sizeof(uroce_stage) + sizeof(uroce_copy_lane)) std::exit(2);
  lanes_ = {reinterpret_cast<uroce_copy_lane*>(stage_ + 1),
            (bytes - sizeof(uroce_stage)) / sizeof(uroce_copy_lane)};
  std::thread([this] { Run(); }).detach();
}

// The first requests may be those in which the shim's thread hangs.
void StageLiar::Run() {
  for (uint32_t answered = Load(stage_->served);;) {
    const uint32_t requested = Load(stage_->requested);
    if (requested != answered) {
      request_ = nullptr;
      Learn(nullptr, requested, stage_->kind, {stage_->pieces, stage_->piece_count}, stage_->data);
      (this->*Load(lie_)->answer)();
      answered = requested;
    }
    for (uroce_copy_lane& lane : lanes_) {
      for (uint32_t slot = 0; slot < UROCE_COPY_SLOTS; ++slot) AnswerCopy(lane, slot);
    }
    sched_yield();
  }
}

void StageLiar::AnswerCopy(uroce_copy_lane& lane, uint32_t slot) {
  uroce_copy_place& place = lane.places[slot];
  uint32_t state = Load(place.state);
  const uint32_t number = state & ~UROCE_COPY_PHASE_MASK;
  if (state == (number | UROCE_COPY_POSTED)) {
    __atomic_compare_exchange_n(&place.state, &state, number | UROCE_COPY_CLAIMED, false,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  }
  if (Load(place.state) != (number | UROCE_COPY_CLAIMED)) return;
  request_ = &lane.requests[slot];
  Learn(&place, number, request_->kind, {request_->pieces, request_->piece_count}, lane.data[slot]);
  (this->*Load(lie_)->answer)();
}

void StageLiar::Learn(uroce_copy_place* place, uint32_t number, uint32_t kind,
                      std::span<const uroce_stage_piece> pieces, uint8_t* data) {
  place_ = place;
  number_ = number;
  kind_ = kind;
  pieces_.assign(pieces.begin(), pieces.end());
  data_ = data;
}

uint32_t StageLiar::NumberBehind(uint32_t by) const {
  return number_ + (place_ != nullptr ? by * (UROCE_COPY_PHASE_MASK + 1) : by);
}

void StageLiar::Move() {
  for (const uroce_stage_piece& piece : pieces_) {
    const uint64_t at = piece.addr - device_;
    if (at > bytes_.size() || piece.length > bytes_.size() - at) std::exit(2);
    uint8_t* const here = data_ + piece.offset;
    if (kind_ == UROCE_STAGE_WRITE) std::memcpy(bytes_.data() + at, here, piece.length);
    if (kind_ == UROCE_STAGE_READ) std::memcpy(here, bytes_.data() + at, piece.length);
  }
}

void StageLiar::Say(uint32_t number, int32_t error) {
  Store(place_ != nullptr ? place_->error : stage_->error, error);
  Publish(number);
}

void StageLiar::Publish(uint32_t number) {
  if (place_ != nullptr) {
    Store(place_->state, number | UROCE_COPY_DONE);
    return;  // A worker that sleeps looks again soon.
  }
  Store(stage_->served, number);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  syscall(SYS_futex, &stage_->served, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// ---- Answers ----

void StageLiar::Honestly() {
  Move();
  Finish();
}

/// The answer to the former request comes once more, with an error.
void StageLiar::Twice() {
  Say(NumberBehind(UINT32_MAX), EFAULT);
  usleep(kMoment);
  Honestly();
}

/// Before the bytes are there: answers to requests that the daemon has not made, or not yet.
void StageLiar::ForOthers() {
  const uint32_t others[] = {NumberBehind(1),      NumberBehind(2), NumberBehind(1000),
                             number_ ^ 0x80000000, UINT32_MAX,      0};
  for (const uint32_t other : others) {
    if (other == number_) continue;
    Say(other, 0);
    usleep(kMoment);
  }
  Honestly();
}

/// The next request is answered before it is made, so the daemon takes what lies in the stage.
void StageLiar::Early() {
  Honestly();
  usleep(kMoment);
  Publish(NumberBehind(1));
}

void StageLiar::Uncopied() { Finish(); }

/// The bytes change while the daemon takes them.
void StageLiar::WithChangingBytes() {
  Honestly();
  const auto is_newest = [this] {
    return place_ != nullptr ? Load(place_->state) == (number_ | UROCE_COPY_DONE)
                             : Load(stage_->requested) == number_;
  };
  for (int i = 0; i < 1000 && is_newest(); ++i) {
    for (size_t at = 0; at < 4096; at += 64) data_[at] ^= 1;
  }
}

/// All that the daemon has written is something else when it takes the answer.
void StageLiar::WithOtherFields() {
  Move();
  constexpr uroce_stage_piece kOutside = {
      .addr = UINT64_MAX, .offset = UROCE_STAGE_DATA_BYTES, .length = UINT32_MAX};
  const auto change = [&](auto& request) {
    for (uroce_stage_piece& piece : request.pieces) piece = kOutside;
    request.kind = UINT32_MAX;
    request.piece_count = UINT32_MAX;
  };
  if (request_ != nullptr) {
    change(*request_);
  } else {
    change(*stage_);
    Store(stage_->daemon_sleeps, UINT32_MAX);
  }
  Finish();
}

void StageLiar::WithErrors() {
  const int32_t errors[] = {EFAULT, -1, INT32_MIN, INT32_MAX};
  Say(number_, errors[error_++ % 4]);
}

/// The error is another one each time when the daemon looks.
void StageLiar::WithTwoErrors() {
  if (!is_changing_) {
    is_changing_ = true;
    std::thread([this] {
      for (int32_t error = 0;; error ^= EFAULT) {
        Store(stage_->error, error);
        for (uroce_copy_lane& lane : lanes_) {
          for (uroce_copy_place& place : lane.places) Store(place.error, error);
        }
        sched_yield();
      }
    }).detach();
  }
  Move();
  Publish(number_);
}

}  // namespace uroce::memory_kinds
