// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/connection.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {

absl::string_view NameOf(Joined joined) {
  constexpr std::array<absl::string_view, 5> kNames = {"one direction", "by UDP port", "by PSNs",
                                                       "by PSNs and UDP port", "by CM exchange"};
  return kNames[static_cast<size_t>(joined)];
}

absl::string_view NameOf(wire::Service service) {
  switch (service) {
    case wire::Service::kRc:
      return "RC";
    case wire::Service::kUc:
      return "UC";
    case wire::Service::kRd:
      return "RD";
    case wire::Service::kUd:
      return "UD";
    case wire::Service::kCnp:
      return "CNP";
    case wire::Service::kXrc:
      return "XRC";
  }
  return "";
}

View& Connection::ViewOf(uint32_t point) {
  for (View& view : views) {
    if (view.point == point) return view;
  }
  views.push_back({.point = point});
  return views.back();
}

const View* Connection::MainView() const {
  const auto most = std::ranges::max_element(views, {}, &View::packets);
  return most == views.end() ? nullptr : &*most;
}

std::string EndsText(const Connection& connection) {
  const auto text = [](const End& end) {
    return end.knows_qpn
               ? absl::StrFormat("%s qp 0x%06x", AddressText(end.address), end.qpn.value())
               : absl::StrCat(AddressText(end.address), " qp ?");
  };
  const bool is_datagram = connection.service == wire::Service::kUd;
  return absl::StrCat(text(connection.ends[0]), is_datagram ? " -> " : " <-> ",
                      text(connection.ends[1]));
}

}  // namespace uroce::tools::analyze
