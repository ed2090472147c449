// SPDX-License-Identifier: Apache-2.0
// A dump of the objects in tables of programs.
#pragma once

#include <cstdint>
#include <string>

#include "nic/dumps/dump_stream.h"

namespace uroce::nic {

/// JSON: {"name":[item,item]}, for the programs that the asker may see. Iterates over one or
/// several tables of each program. Programs and objects may come and go between two pieces.
class TablesSource : public ListSource {
 public:
  TablesSource(absl::string_view name, const DumpContext& context, const Client& asker,
               uint32_t tables = 1)
      : ListSource(name), context_(context), asker_(asker), tables_(tables) {}

 protected:
  /// Adds the object with this handle, or the next one, of the program's table number `table`.
  /// Returns the handle at which to continue, or UROCE_NONE after the last.
  virtual uint32_t AddNext(const Client& client, uint32_t table, uint32_t handle,
                           std::string& text) = 0;
  const DumpContext& context() const { return context_; }

 private:
  bool AppendItems(std::string& text) final;
  /// Returns false when the piece is full.
  bool AppendAllOf(const Client& client, std::string& text);

  const DumpContext& context_;
  const Client& asker_;
  const uint32_t tables_;
  uint32_t client_ = 0;  ///< Where to continue, as are the next two.
  uint32_t table_ = 0;
  uint32_t handle_ = 0;
};

}  // namespace uroce::nic
