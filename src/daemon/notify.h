// Tells the service manager how the daemon stands. Does nothing where there is none.
#pragma once

#include <string_view>

namespace smeltr::daemon {

// "READY=1", "STOPPING=1": to the socket that systemd names in NOTIFY_SOCKET. Whoever it is does not answer,
// and nothing depends on it.
void NotifyServiceManager(std::string_view state);

}  // namespace smeltr::daemon
