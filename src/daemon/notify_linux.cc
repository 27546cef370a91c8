// systemd's sd_notify(3), without its library. Declared in notify.h.
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "daemon/notify.h"
#include "util/paths.h"

namespace smeltr::daemon {

void NotifyServiceManager(std::string_view state) {
  const auto name = Environment("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!name.has_value() || name->size() >= sizeof(address.sun_path)) return;
  memcpy(address.sun_path, name->data(), name->size());
  // A name in no file system.
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name->size());
  [[maybe_unused]] const ssize_t sent =
      ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace smeltr::daemon
