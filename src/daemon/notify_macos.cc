// launchd asks for nothing. Declared in notify.h.
#include "daemon/notify.h"

namespace smeltr::daemon {

void NotifyServiceManager(std::string_view /*state*/) {}

}  // namespace smeltr::daemon
