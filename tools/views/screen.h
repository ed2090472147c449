// SPDX-License-Identifier: Apache-2.0
// A whole terminal that shows one text after the other.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace uroce::tools {

/// The terminal of standard input and output, until the end of the object. One at a time.
class Screen {
 public:
  /// Errors: FailedPrecondition, standard output is no terminal that can do this.
  static absl::StatusOr<std::unique_ptr<Screen>> Open();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Shows the lines of `text` that fit.
  void Show(const std::string& text);
  /// Waits for a key. Returns false when it is q: whoever looks has seen enough.
  bool Await(double seconds);

 private:
  struct Terminal;
  explicit Screen(std::unique_ptr<Terminal> terminal);
  const std::unique_ptr<Terminal> terminal_;
};

}  // namespace uroce::tools
