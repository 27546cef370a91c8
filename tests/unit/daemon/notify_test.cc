#include "daemon/notify.h"

#include <gtest/gtest.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "base/fd.h"
#include "fake/scratch.h"

namespace smeltr::daemon {
namespace {

class NotifyTest : public fake::ScratchTest {
 protected:
  // What arrives at a socket of this name.
  std::string Told(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    SetEnv("NOTIFY_SOCKET", name);
    NotifyServiceManager("READY=1");
    std::array<char, 64> text{};
    const ssize_t count = ::recv(fd.get(), text.data(), text.size(), MSG_DONTWAIT);
    return {text.data(), count < 0 ? 0 : static_cast<size_t>(count)};
  }
};

TEST_F(NotifyTest, ByFileAndByAbstractName) {
  EXPECT_EQ(Told((scratch() / "notify").native()), "READY=1");
  EXPECT_EQ(Told("@smeltr-test-" + std::to_string(::getpid())), "READY=1");
}

TEST_F(NotifyTest, NobodyThereIsNoProblem) {
  for (const std::string name : {"", "/no/such/socket", "@smeltr-nobody"}) {
    SetEnv("NOTIFY_SOCKET", name);
    NotifyServiceManager("READY=1");
  }
}

}  // namespace
}  // namespace smeltr::daemon
