// SPDX-License-Identifier: Apache-2.0
// Counts the yields of this process, and runs something in their time.
#pragma once

#include <functional>

namespace uroce::shim_test {

inline int g_yields = 0;
inline std::function<void()> g_others;  ///< What runs while this process yields.

}  // namespace uroce::shim_test
