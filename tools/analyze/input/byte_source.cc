// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/input/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/os/fd.h"

namespace uroce::tools::analyze {
namespace {

constexpr size_t kWindowBytes = 256 << 10;
constexpr size_t kPackedBytes = 128 << 10;
constexpr std::array<uint8_t, 2> kGzipMagic = {0x1f, 0x8b};
constexpr std::array<uint8_t, 4> kZstdMagic = {0x28, 0xb5, 0x2f, 0xfd};

/// A file, a pipe or stdin, whose first bytes may be looked at before they are read.
class FdStream : public ByteStream {
 public:
  FdStream(Fd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  /// At most four bytes, to be called before Read.
  absl::StatusOr<std::span<const uint8_t>> LookAhead() {
    while (ahead_bytes_ < ahead_.size()) {
      const absl::StatusOr<size_t> count = ReadFd(std::span(ahead_).subspan(ahead_bytes_));
      if (!count.ok()) return count.status();
      if (*count == 0) break;
      ahead_bytes_ += *count;
    }
    return std::span<const uint8_t>(ahead_).first(ahead_bytes_);
  }
  absl::StatusOr<size_t> Read(std::span<uint8_t> out) override {
    if (ahead_bytes_ == 0) return ReadFd(out);
    const size_t count = std::min(ahead_bytes_, out.size());
    memcpy(out.data(), ahead_.data(), count);
    memmove(ahead_.data(), ahead_.data() + count, ahead_bytes_ - count);
    ahead_bytes_ -= count;
    return count;
  }
  const std::string& name() const { return name_; }

 private:
  absl::StatusOr<size_t> ReadFd(std::span<uint8_t> out) const {
    ssize_t count;
    do {
      count = read(fd_.get(), out.data(), out.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) return absl::DataLossError(absl::StrCat(name_, ": ", strerror(errno)));
    return static_cast<size_t>(count);
  }

  Fd fd_;
  std::string name_;
  std::array<uint8_t, 4> ahead_{};
  size_t ahead_bytes_ = 0;
};

/// Packed bytes that an unpacker has not taken yet.
class PackedInput {
 public:
  explicit PackedInput(std::unique_ptr<FdStream> stream)
      : stream_(std::move(stream)), buffer_(kPackedBytes) {}

  /// All that is there, more from the stream if nothing is. Empty: the end.
  absl::StatusOr<std::span<uint8_t>> Rest() {
    if (begin_ == end_) {
      const absl::StatusOr<size_t> count = stream_->Read(buffer_);
      if (!count.ok()) return count.status();
      begin_ = 0;
      end_ = *count;
    }
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }
  void Take(size_t count) { begin_ += count; }
  absl::Status Broken(const char* reason) const {
    return absl::DataLossError(absl::StrCat(stream_->name(), ": cannot unpack: ", reason));
  }

 private:
  std::unique_ptr<FdStream> stream_;
  std::vector<uint8_t> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<FdStream> stream) : input_(std::move(stream)) {
    inflateInit2(&state_, MAX_WBITS + 16);  // 16: the gzip format.
  }
  ~GzipStream() override { inflateEnd(&state_); }

  absl::StatusOr<size_t> Read(std::span<uint8_t> out) override {
    state_.next_out = out.data();
    state_.avail_out = static_cast<uInt>(out.size());
    while (state_.avail_out == out.size()) {
      const absl::StatusOr<std::span<uint8_t>> rest = input_.Rest();
      if (!rest.ok()) return rest.status();
      if (rest->empty()) return is_whole_ ? 0 : absl::StatusOr<size_t>(input_.Broken("cut short"));
      if (absl::Status status = Inflate(*rest); !status.ok()) return status;
    }
    return out.size() - state_.avail_out;
  }

 private:
  /// One step. Members of the file follow each other, as gzip(1) and rotating tools write them.
  absl::Status Inflate(std::span<uint8_t> rest) {
    state_.next_in = rest.data();
    state_.avail_in = static_cast<uInt>(rest.size());
    const int result = inflate(&state_, Z_NO_FLUSH);
    input_.Take(rest.size() - state_.avail_in);
    is_whole_ = result == Z_STREAM_END;
    if (is_whole_) return inflateReset(&state_) == Z_OK ? absl::OkStatus() : input_.Broken("zlib");
    return result == Z_OK || result == Z_BUF_ERROR ? absl::OkStatus() : input_.Broken("bad data");
  }

  PackedInput input_;
  z_stream state_{};
  bool is_whole_ = false;
};

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(std::unique_ptr<FdStream> stream)
      : input_(std::move(stream)), state_(ZSTD_createDStream()) {}
  ~ZstdStream() override { ZSTD_freeDStream(state_); }

  absl::StatusOr<size_t> Read(std::span<uint8_t> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      const absl::StatusOr<std::span<uint8_t>> rest = input_.Rest();
      if (!rest.ok()) return rest.status();
      if (rest->empty() && left_ == 0) return 0;
      ZSTD_inBuffer from{rest->data(), rest->size(), 0};
      left_ = ZSTD_decompressStream(state_, &to, &from);
      if (ZSTD_isError(left_) != 0) return input_.Broken(ZSTD_getErrorName(left_));
      input_.Take(from.pos);
      if (rest->empty() && to.pos == 0) return input_.Broken("cut short");
    }
    return to.pos;
  }

 private:
  PackedInput input_;
  ZSTD_DStream* state_;
  size_t left_ = 0;  // 0: a frame is complete.
};

bool BeginsWith(std::span<const uint8_t> bytes, std::span<const uint8_t> magic) {
  return bytes.size() >= magic.size() && memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> OpenStream(const std::string& path) {
  const bool is_stdin = path == "-";
  Fd fd(is_stdin ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string name = is_stdin ? "stdin" : path;
  if (fd.get() < 0) return absl::InvalidArgumentError(absl::StrCat(name, ": ", strerror(errno)));
  auto stream = std::make_unique<FdStream>(std::move(fd), name);
  const absl::StatusOr<std::span<const uint8_t>> head = stream->LookAhead();
  if (!head.ok()) return absl::InvalidArgumentError(head.status().message());
  if (BeginsWith(*head, kGzipMagic)) return std::make_unique<GzipStream>(std::move(stream));
  if (BeginsWith(*head, kZstdMagic)) return std::make_unique<ZstdStream>(std::move(stream));
  return stream;
}

ByteWindow::ByteWindow(std::unique_ptr<ByteStream> stream)
    : stream_(std::move(stream)), buffer_(kWindowBytes) {}

void ByteWindow::Fill(size_t count) {
  memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() < count) buffer_.resize(count);
  while (end_ < count && !at_end_) {
    const absl::StatusOr<size_t> read = stream_->Read(std::span(buffer_).subspan(end_));
    at_end_ = !read.ok() || *read == 0;
    if (!read.ok()) status_ = read.status();
    if (read.ok()) end_ += *read;
  }
}

}  // namespace uroce::tools::analyze
