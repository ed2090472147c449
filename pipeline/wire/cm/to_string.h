// SPDX-License-Identifier: Apache-2.0
// Converts messages of the connection manager to text, for tests, tools and state dumps. Allocates.
#pragma once

#include <string>
#include <string_view>

#include "pipeline/wire/cm/codec.h"
#include "pipeline/wire/cm/message.h"

namespace uroce::wire {

/// "REQ", "SIDR_REP" ...
std::string_view CmAttributeName(CmAttribute attribute);

/// One message in one line; ids, QPNs and PSNs in hexadecimal:
///   "REQ id=6af7cd08 service=0000000001061c06 qpn=000011 psn=e7fa0c"
///   "REP id=0a61531a remote=6af7cd08 qpn=000011 psn=4c05ab"
///   "REJ id=00000000 remote=58ec00f9 about=REQ reason=8", "MRA id=.. remote=.. about=REQ
///   timeout=24" "RTU id=.. remote=..", "DREP id=.. remote=..", "DREQ id=.. remote=.. qpn=000011"
///   "SIDR_REQ id=.. service=..", "SIDR_REP id=.. status=0 qpn=000019 qkey=01234567"
///   "LAP id=.. remote=.. qpn=..", "APR id=.. remote=.. status=2"
std::string ToString(const CmMessage& message);

/// "kBadMethod" and so on, without the k.
std::string_view ToString(CmDecodeResult result);

}  // namespace uroce::wire
